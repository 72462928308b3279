{{- define "odf.labels" -}}
app.kubernetes.io/name: odf-node
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "odf.selector" -}}
app.kubernetes.io/name: odf-node
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "odf.name" -}}
{{ printf "%s-odf-%s" .root.Release.Name .component | trunc 52 | trimSuffix "-" }}
{{- end }}

{{/* What every pod of ours has in common. */}}
{{- define "odf.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "odf.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Where the stores are. */}}
{{- define "odf.stores" -}}
- name: ODF_STORE_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.secret.name }}
      key: database-url
- name: ODF_STORE_SECRETS_KEYS
  valueFrom:
    secretKeyRef:
      name: {{ .Values.secret.name }}
      key: secrets-keys
      optional: true
- name: ODF_STORE_OBJECTS_URL
  value: {{ .Values.objectsUrl | quote }}
# The volumes of a pod belong to root, and no other pod sees them.
- name: ODF_STORE_PRIVATE_FILES
  value: "false"
- name: ODF_STORE_LOG_FORMAT
  value: {{ .Values.logFormat }}
- name: AWS_REGION
  value: {{ .Values.awsRegion | quote }}
{{- if .Values.secret.awsKeys }}
- name: AWS_ACCESS_KEY_ID
  valueFrom:
    secretKeyRef:
      name: {{ .Values.secret.name }}
      key: aws-access-key-id
- name: AWS_SECRET_ACCESS_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .Values.secret.name }}
      key: aws-secret-access-key
{{- end }}
{{- end }}

{{/* A pod that runs one command of odf-node and ends. */}}
{{- define "odf.command" -}}
{{ include "odf.pod" .root }}
restartPolicy: {{ .restart }}
containers:
  - name: odf-node
    image: {{ .root.Values.image.node | quote }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    args: {{ toJson .args }}
    env:
      {{- include "odf.stores" .root | nindent 6 }}
    resources:
      requests: {cpu: 100m, memory: 256Mi}
      limits: {memory: 1Gi}
    securityContext:
      {{- include "odf.container" .root | nindent 6 }}
    volumeMounts:
      - {name: data, mountPath: /data}
      - {name: tmp, mountPath: /tmp}
volumes:
  - {name: data, emptyDir: {}}
  - {name: tmp, emptyDir: {}}
{{- end }}

{{/* Number of workers at most. */}}
{{- define "odf.workers" -}}
{{- if .Values.worker.keda.enabled }}{{ .Values.worker.keda.maxReplicas }}{{ else }}{{ max 1 .Values.worker.replicas }}{{ end }}
{{- end }}

{{/* Cores of the cluster for each worker: a worker that takes all leaves none to the next. */}}
{{- define "odf.cores" -}}
{{- $workers := include "odf.workers" . | int }}
{{- $cores := div (mul .Values.worker.executors.count .Values.worker.executors.cores) $workers }}
{{- if lt $cores 1 }}
{{- fail "worker.executors has fewer cores than there are workers: a worker without a core waits for ever" }}
{{- end }}
{{- $cores }}
{{- end }}

{{/* Heap of a worker's executor on a machine, which has one for each worker, but not more than cores. */}}
{{- define "odf.executor.memory" -}}
{{- $executors := .Values.worker.executors }}
{{- $units := dict "m" 1 "g" 1024 "t" 1048576 }}
{{- $memory := mul (regexFind "^[0-9]+" $executors.memory) (get $units (regexFind "[a-z]$" $executors.memory)) }}
{{- $heap := div $memory (min (include "odf.workers" . | int) $executors.cores) }}
{{- if lt $heap 512 }}
{{- fail (printf "worker.executors.memory leaves %dm to the executor of each worker; Spark needs 512m" $heap) }}
{{- end }}
{{- $heap }}m
{{- end }}

{{/* Bytes of a quantity without a fraction. */}}
{{- define "odf.bytes" -}}
{{- $units := dict "" 1 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- mul (regexFind "^[0-9]+" .) (get $units (regexFind "[A-Za-z]*$" .)) }}
{{- end }}

{{/* Address of a pod for the others of its cluster. */}}
{{- define "odf.own.address" -}}
- name: SPARK_LOCAL_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- end }}

{{/* Pods of the release by their components, as peers of a policy. */}}
{{- define "odf.peers" -}}
{{- $root := .root }}
{{- range .components }}
- podSelector:
    matchLabels:
      {{- include "odf.selector" (dict "root" $root "component" .) | nindent 6 }}
{{- end }}
{{- end }}

{{/* Where every pod of ours connects to: names, database and bucket. */}}
{{- define "odf.egress.stores" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- toYaml .Values.networkPolicy.stores | nindent 0 }}
{{- end }}

{{/* Service and worker also reach sources and mirrors: public addresses, nothing of the cluster. */}}
{{- define "odf.egress" -}}
{{ include "odf.egress.stores" . }}
{{- if .Values.networkPolicy.sources.enabled }}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except:
          {{- toYaml .Values.networkPolicy.sources.except | nindent 10 }}
  ports:
    {{- range .Values.networkPolicy.sources.ports }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- end }}
{{- end }}
