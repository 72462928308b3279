{{ config(materialized='table') }}
select city, population, (select count(*) from {{ source('node', 'cities_log') }}) as changes
from {{ source('node', 'cities') }}
order by population desc
limit 2
