"""Allow-lists for strangers' queries on Spark: functions, and classes of expressions and plans.

Anything that is not named here is refused, so a part that a new version of Spark adds stays refused
until somebody has reviewed it. A function belongs here if it computes from its arguments alone: it
reads no file, no environment and no other session, and calls no foreign code.
"""

# ruff: noqa: SIM905 - as words the tables stay readable

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """The parts that one kind of query may use. `functions` are names in Spark's registry."""

    functions: frozenset[str]
    expressions: frozenset[str]
    nodes: frozenset[str]


_FUNCTIONS = frozenset(
    r"""
    ! % & * + - / < << <= <=> = == > >= >> >>> ^ | ~ abs acos acosh add_months aes_decrypt
    aggregate and any any_value approx_count_distinct approx_percentile approx_top_k
    approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate array array_agg
    array_append array_compact array_contains array_distinct array_except array_insert
    array_intersect array_join array_max array_min array_position array_prepend array_remove
    array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh
    assert_true atan atan2 atanh avg base64 between bigint bin binary bit_and bit_count bit_get
    bit_length bit_or bit_xor bitmap_and_agg bitmap_bit_position bitmap_bucket_number
    bitmap_construct_agg bitmap_count bitmap_or_agg bool_and bool_or boolean bround btrim
    cardinality cast cbrt ceil ceiling char char_length character_length chr coalesce collate
    collation collect_list collect_set collect_union concat concat_ws contains conv
    convert_timezone corr cos cosh cot count count_if count_min_sketch counter_diff covar_pop
    covar_samp crc32 csc cume_dist date date_add date_diff date_format date_from_unix_date
    date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek
    dayofyear decimal decode degrees dense_rank div double e element_at elt encode endswith
    equal_null every exists exp explode explode_outer expm1 extract factorial filter find_in_set
    first first_value flatten float floor forall format_number format_string from_base32
    from_csv from_json from_unixtime from_utc_timestamp get get_json_object getbit greatest
    grouping grouping_id hash hex histogram_numeric hll_sketch_agg hll_sketch_estimate hll_union
    hll_union_agg hmac hour hypot if ifnull ilike in initcap inline inline_outer instr int
    is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull
    jaro_winkler_similarity json_array_length json_object_keys json_tuple kll_merge_agg_bigint
    kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
    kll_sketch_agg_float kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
    kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
    kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float
    kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float
    kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float kurtosis
    lag last last_day last_value lcase lead least left len length levenshtein like listagg ln
    locate log log10 log1p log2 lower lpad ltrim luhn_check make_date make_dt_interval
    make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz make_valid_utf8
    make_ym_interval map map_concat map_contains_key map_entries map_filter map_from_arrays
    map_from_entries map_keys map_values map_zip_with mask max max_by md5 mean median min min_by
    minute mod mode month monthname months_between named_struct nanvl negative next_day not
    nth_value ntile nullif nullifzero nvl nvl2 octet_length or overlay parse_json parse_url
    percent_rank percentile percentile_approx percentile_cont percentile_disc pi pmod posexplode
    posexplode_outer position positive pow power printf quarter quote radians raise_error range
    rank reduce regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like
    regexp_replace regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse right rint rlike round
    row_number rpad rtrim schema_of_csv schema_of_json schema_of_variant schema_of_variant_agg
    sec second sentences sequence session_window sha sha1 sha2 shiftleft shiftright
    shiftrightunsigned sign signum sin sinh size skewness slice smallint some sort_array soundex
    space split split_part sqrt st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid
    stack startswith std stddev stddev_pop stddev_samp str_to_map string string_agg struct
    substr substring substring_index sum tan tanh theta_difference theta_intersection
    theta_intersection_agg theta_sketch_agg theta_sketch_estimate theta_union theta_union_agg
    time time_bucket time_diff time_from_micros time_from_millis time_from_seconds
    time_to_micros time_to_millis time_to_seconds time_trunc timestamp timestamp_micros
    timestamp_millis timestamp_nanos timestamp_seconds tinyint to_base32 to_binary to_char
    to_csv to_date to_json to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz
    to_unix_timestamp to_utc_timestamp to_varchar to_variant_object to_xml transform
    transform_keys transform_values translate trim trunc try_add try_aes_decrypt try_avg
    try_divide try_element_at try_make_interval try_make_timestamp try_make_timestamp_ltz
    try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url try_subtract
    try_sum try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode
    try_validate_utf8 try_variant_array_append try_variant_get try_variant_insert
    try_variant_set tuple_difference_double tuple_difference_integer
    tuple_difference_theta_double tuple_difference_theta_integer tuple_intersection_agg_double
    tuple_intersection_agg_integer tuple_intersection_double tuple_intersection_integer
    tuple_intersection_theta_double tuple_intersection_theta_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer
    tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double
    tuple_sketch_theta_integer tuple_union_agg_double tuple_union_agg_integer tuple_union_double
    tuple_union_integer tuple_union_theta_double tuple_union_theta_integer typeof ucase unbase64
    unhex unix_date unix_micros unix_millis unix_nanos unix_seconds unix_timestamp upper
    url_decode url_encode validate_utf8 var_pop var_samp variance variant_array_append
    variant_delete variant_explode variant_explode_outer variant_get variant_insert variant_set
    variant_strip_nulls vector_avg vector_cosine_similarity vector_inner_product
    vector_l2_distance vector_norm vector_normalize vector_sum weekday weekofyear when
    width_bucket window window_time xpath xpath_boolean xpath_double xpath_float xpath_int
    xpath_long xpath_number xpath_short xpath_string xxhash64 year zeroifnull zip_with
    """.split()
)
"""Names of functions. All other functions are removed from the registry of a session."""
_EXPRESSIONS = frozenset(
    """
    Abs Acos Acosh Add AddMonths AesDecrypt AggregateExpression Alias And AnyValue ApproxTopK
    ApproxTopKAccumulate ApproxTopKCombine ApproxTopKEstimate ApproximatePercentile
    ArrayAggregate ArrayAppend ArrayCompact ArrayContains ArrayDistinct ArrayExcept ArrayExists
    ArrayFilter ArrayForAll ArrayInsert ArrayIntersect ArrayJoin ArrayMax ArrayMin ArrayPosition
    ArrayPrepend ArrayRemove ArrayRepeat ArraySize ArraySort ArrayTransform ArrayUnion
    ArraysOverlap ArraysZip Ascii Asin Asinh AssertTrue Atan Atan2 Atanh AttributeReference
    Average BRound Base32 Base64 Between Bin BinaryPad BinaryPredicate BitAndAgg BitLength
    BitOrAgg BitXorAgg BitmapAndAgg BitmapBitPosition BitmapBucketNumber BitmapConstructAgg
    BitmapCount BitmapOrAgg BitwiseAnd BitwiseCount BitwiseGet BitwiseNot BitwiseOr BitwiseXor
    BoolAnd BoolOr CaseWhen Cast Cbrt Ceil Chr Coalesce Collate Collation CollectList CollectSet
    CollectUnion CommonExpressionDef CommonExpressionRef Concat ConcatWs Contains Conv
    ConvertTimezone Corr Cos Cosh Cot Count CountIf CountMinSketchAgg CounterDiff
    CounterDiffWithStartTime CovPopulation CovSample Crc32 CreateArray CreateMap
    CreateNamedStruct Csc CsvToStructs CumeDist CurrentRow DateAdd DateAddInterval
    DateAddYMInterval DateDiff DateFormatClass DateFromUnixDate DateSub DatetimeSub DayName
    DayOfMonth DayOfWeek DayOfYear Decode DenseRank Divide DivideDTInterval DivideInterval
    DivideYMInterval ElementAt Elt Encode EndsWith EqualNull EqualNullSafe EqualTo EulerNumber
    Exists Exp Explode Expm1 Extract ExtractANSIIntervalDays ExtractANSIIntervalHours
    ExtractANSIIntervalMinutes ExtractANSIIntervalMonths ExtractANSIIntervalSeconds
    ExtractANSIIntervalYears ExtractIntervalDays ExtractIntervalHours ExtractIntervalMinutes
    ExtractIntervalMonths ExtractIntervalSeconds ExtractIntervalYears Factorial FindInSet First
    Flatten Floor FormatNumber FormatString FromUTCTimestamp FromUnixTime Get GetArrayItem
    GetArrayStructFields GetJsonObject GetMapValue GetStructField GetTimestamp GreaterThan
    GreaterThanOrEqual Greatest Grouping GroupingID Hex HistogramNumeric HllSketchAgg
    HllSketchEstimate HllUnion HllUnionAgg Hmac Hour HyperLogLogPlusPlus Hypot ILike If In
    InSubquery InitCap Inline IntegralDivide IsNaN IsNotNull IsNotUnknown$$anon$2 IsNull
    IsUnknown$$anon$1 IsValidUTF8 IsValidVariant IsVariantNull JaroWinkler JsonObjectKeys
    JsonTable JsonToStructs JsonTuple KllMergeAggBigint KllMergeAggDouble KllMergeAggFloat
    KllSketchAggBigint KllSketchAggDouble KllSketchAggFloat KllSketchGetNBigint
    KllSketchGetNDouble KllSketchGetNFloat KllSketchGetQuantileBigint KllSketchGetQuantileDouble
    KllSketchGetQuantileFloat KllSketchGetRankBigint KllSketchGetRankDouble
    KllSketchGetRankFloat KllSketchMergeBigint KllSketchMergeDouble KllSketchMergeFloat
    KllSketchToStringBigint KllSketchToStringDouble KllSketchToStringFloat KnownNotNull
    KnownNullable Kurtosis Lag LambdaFunction Last LastDay LateralSubquery Lead Least Left
    Length LengthOfJsonArray LessThan LessThanOrEqual Levenshtein Like LikeAll LikeAny ListAgg
    ListQuery Literal Log Log10 Log1p Log2 Logarithm Lower Luhncheck MakeDTInterval MakeDate
    MakeInterval MakeTime MakeTimestamp MakeTimestampFromDateTime MakeTimestampLTZ
    MakeTimestampNTZ MakeValidUTF8 MakeYMInterval MapConcat MapContainsKey MapEntries MapFilter
    MapFromArrays MapFromEntries MapKeys MapValues MapZipWith Mask Max MaxBy MaxMinByK Md5
    Median MicrosToTimestamp MillisToTimestamp Min MinBy Minute Mode Month MonthName
    MonthsBetween Multiply MultiplyDTInterval MultiplyInterval MultiplyYMInterval Murmur3Hash
    NTile NaNvl NamedLambdaVariable NanosToTimestamp NextDay Not NotLikeAll NotLikeAny NthValue
    NullIf NullIfResult NullIfZero NullIndex Nvl Nvl2 OctetLength Or OuterReference Overlay
    ParseJson ParseToDate ParseToTimestamp ParseUrl PercentRank Percentile PercentileCont
    PercentileDisc Pi PivotFirst Pmod PosExplode Pow PreciseTimestampConversion Quarter Quote
    RLike RaiseError Rank RegExpCount RegExpExtract RegExpExtractAll RegExpInStr RegExpReplace
    RegExpSubStr RegrAvgX RegrAvgY RegrCount RegrIntercept RegrR2 RegrReplacement RegrSXX
    RegrSXY RegrSYY RegrSlope Remainder ResolvedCollation Reverse Right Rint Round RoundCeil
    RoundFloor RowNumber ST_AsBinary ST_GeogFromWKB ST_GeomFromWKB ST_SetSrid ST_Srid
    ScalarSubquery SchemaOfCsv SchemaOfJson SchemaOfVariant SchemaOfVariantAgg Sec Second
    SecondWithFraction SecondsToTimestamp Sentences Sequence SessionWindow Sha1 Sha2 ShiftLeft
    ShiftRight ShiftRightUnsigned Signum Sin Sinh Size Skewness Slice SortArray SortOrder
    SoundEx SpecifiedWindowFrame SplitPart Sqrt Stack StartsWith StddevPop StddevSamp
    StringDecode StringInstr StringInstrWithOccurrence StringLPad StringLocate StringRPad
    StringRepeat StringReplace StringSpace StringSplit StringSplitSQL StringToMap
    StringTranslate StringTrim StringTrimBoth StringTrimLeft StringTrimRight StructsToCsv
    StructsToJson StructsToXml Substring SubstringIndex Subtract SubtractDates SubtractTimes
    SubtractTimestamps Sum Tan Tanh ThetaDifference ThetaIntersection ThetaIntersectionAgg
    ThetaSketchAgg ThetaSketchEstimate ThetaUnion ThetaUnionAgg TimeAddInterval TimeBucket
    TimeDiff TimeFromMicros TimeFromMillis TimeFromSeconds TimeToMicros TimeToMillis
    TimeToSeconds TimeTrunc TimeWindow TimestampAdd TimestampAddInterval TimestampAddYMInterval
    TimestampDiff ToBinary ToCharacter ToDegrees ToNumber ToRadians ToTime ToUTCTimestamp
    ToUnixTimestamp ToVariantObject TransformKeys TransformValues TruncDate TruncTimestamp
    TryAdd TryAesDecrypt TryDivide TryElementAt TryEval TryMakeInterval TryMakeTimestamp
    TryMakeTimestampFromDateTime TryMod TryMultiply TryParseUrl TrySubtract TryToBinary
    TryToNumber TryUrlDecode TryValidateUTF8 TupleDifferenceDouble TupleDifferenceInteger
    TupleDifferenceThetaDouble TupleDifferenceThetaInteger TupleIntersectionAggDouble
    TupleIntersectionAggInteger TupleIntersectionDouble TupleIntersectionInteger
    TupleIntersectionThetaDouble TupleIntersectionThetaInteger TupleSketchAggDouble
    TupleSketchAggInteger TupleSketchEstimateDouble TupleSketchEstimateInteger
    TupleSketchSummaryDouble TupleSketchSummaryInteger TupleSketchThetaDouble
    TupleSketchThetaInteger TupleUnionAggDouble TupleUnionAggInteger TupleUnionDouble
    TupleUnionInteger TupleUnionThetaDouble TupleUnionThetaInteger TypeOf UnBase32 UnBase64
    UnaryMinus UnaryPositive UnboundedFollowing UnboundedPreceding Unhex UnixDate UnixMicros
    UnixMillis UnixNanos UnixSeconds UnixTimestamp Unnest UnspecifiedFrame UpdateFields Upper
    UrlDecode UrlEncode ValidateUTF8 VariancePop VarianceSamp VariantArrayAppend VariantDelete
    VariantExplode VariantGet VariantInsert VariantSet VariantStripNulls VectorAvg
    VectorCosineSimilarity VectorInnerProduct VectorL2Distance VectorNorm VectorNormalize
    VectorSum WeekDay WeekOfYear WidthBucket WindowExpression WindowSpecDefinition WindowTime
    With XPathBoolean XPathDouble XPathFloat XPathInt XPathList XPathLong XPathShort XPathString
    XxHash64 Year YearOfWeek ZeroIfNull ZipWith
    """.split()
)
"""Classes of analysed expressions, without their package. Functions, operators and the grammar
produce them."""
_NODES = frozenset(
    """
    Aggregate AsOfJoin CTERelationDef CTERelationRef Deduplicate Distinct Except Expand Filter
    Generate GlobalLimit Intersect Join LateralJoin LocalLimit LocalRelation LogicalRDD
    LogicalRelation Offset OneRowRelation PipeOperator Project Range ResolvedHint
    ResolvedInlineTable Sort SubqueryAlias Union UnionLoop UnionLoopRef View Window WithCTE
    """.split()
)
"""Classes of analysed plans."""
PARSED = frozenset(
    """
    Aggregate AsOfJoin Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin
    LocalLimit LocalRelation MultiAlias Offset OneRowRelation PipeOperator Pivot Project
    RepartitionByExpression Sample Sort SubqueryAlias Union UnresolvedAlias UnresolvedAttribute
    UnresolvedExtractValue UnresolvedFunction UnresolvedGenerator UnresolvedHaving UnresolvedHint
    UnresolvedInlineTable UnresolvedOrdinal UnresolvedQualify UnresolvedRegex UnresolvedRelation
    UnresolvedStar UnresolvedStarExceptOrReplace UnresolvedSubqueryColumnAliases
    UnresolvedTVFAliases UnresolvedTableValuedFunction UnresolvedWith Unpivot
    WithWindowDefinition
    """.split()
)
"""Classes of parsed plans, besides expressions: queries over names, but no commands."""

MOMENTS: Mapping[str, str] = {
    "AesEncrypt": "aes_encrypt",
    "CurrentCatalog": "current_catalog",
    "CurrentDatabase": "current_database",
    "CurrentDate": "current_date",
    "CurrentPath": "current_path",
    "CurrentTime": "current_time",
    "CurrentTimeZone": "current_timezone",
    "CurrentTimestamp": "current_timestamp",
    "LocalTimestamp": "localtimestamp",
    "MonotonicallyIncreasingID": "monotonically_increasing_id",
    "Now": "now",
    "Rand": "rand",
    "RandStr": "randstr",
    "Randn": "randn",
    "Shuffle": "shuffle",
    "SparkPartitionID": "spark_partition_id",
    "SparkVersion": "version",
    "Uniform": "uniform",
    "Uuid": "uuid",
}
"""Expressions whose value depends on when, where or how often they are computed, with the functions
that produce them. Preprocessing is never repeated, so it may use them."""
MOMENT_FUNCTIONS = frozenset(MOMENTS.values()) | frozenset(
    "curdate current_schema localtime random".split()
)
SPREADING: Mapping[str, str] = {
    "RepartitionByExpression": "DISTRIBUTE BY or CLUSTER BY",
    "Sample": "TABLESAMPLE",
}
"""Nodes that depend on the distribution of rows over tasks, with their names in messages."""

TRANSFORM = Allowed(functions=_FUNCTIONS, expressions=_EXPRESSIONS, nodes=_NODES)
PREPROCESS = Allowed(
    functions=_FUNCTIONS | MOMENT_FUNCTIONS,
    expressions=_EXPRESSIONS | frozenset(MOMENTS),
    nodes=_NODES | frozenset(SPREADING),
)

CALLED: Mapping[str, str] = {
    "CallMethodViaReflection": "a Java method",
    "CurrentUser": "the function current_user",
    "ExpressionWithUnresolvedIdentifier": "IDENTIFIER",
    "FromProtobuf": "the function from_protobuf",
    "InputFileBlockLength": "the function input_file_block_length",
    "InputFileBlockStart": "the function input_file_block_start",
    "InputFileName": "the function input_file_name",
    "NamedStreamingRelation": "STREAM",
    "PlanWithUnresolvedIdentifier": "IDENTIFIER",
    "PythonUDF": "a Python function",
    "PythonUDTF": "a Python function",
    "RebalancePartitions": "a hint about partitions",
    "RelationTimeTravel": "time travel",
    "Repartition": "a hint about partitions",
    "SchemaOfXml": "the function schema_of_xml",
    "ScriptTransformation": "TRANSFORM",
    "TryReflect": "a Java method",
    "UserDefinedExpression": "a function from outside",
    "VariableReference": "a variable",
    "XmlToStructs": "the function from_xml",
    **{name: f"the function {called}" for name, called in MOMENTS.items()},
    **SPREADING,
}
"""Names in error messages of the parts that are refused."""
