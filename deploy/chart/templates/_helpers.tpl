{{/* The name of the objects. */}}
{{- define "waterwheel.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels by which pods are found: they never change. */}}
{{- define "waterwheel.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "waterwheel.labels" -}}
{{ include "waterwheel.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* A required setting, which comes from env, a file or the secret. */}}
{{- define "waterwheel.require" -}}
{{- $env := .root.Values.env -}}
{{- $secret := and .root.Values.existingSecret (has .name .root.Values.secretSettings) -}}
{{- if not (or (index $env .name) (index $env (printf "%s_FILE" .name)) $secret) -}}
{{- fail (printf "the setting %s is required: set it in env, or set existingSecret and list %s in secretSettings" .name .name) -}}
{{- end -}}
{{- end -}}

{{/* MEMORY_LIMIT is the container's memory limit minus 64 MiB, which the process may use in addition. */}}
{{- define "waterwheel.memoryLimit" -}}
{{- $limit := dig "limits" "memory" "" .Values.resources | toString -}}
{{- if regexMatch "^[0-9]+Gi$" $limit -}}
{{- printf "%dMiB" (sub (mul (trimSuffix "Gi" $limit | int64) 1024) 64) -}}
{{- else if regexMatch "^[0-9]+Mi$" $limit -}}
{{- printf "%dMiB" (sub (trimSuffix "Mi" $limit | int64) 64) -}}
{{- else -}}
{{- fail (printf "resources.limits.memory is %q: write it in Mi or Gi, or set env.MEMORY_LIMIT to 64 MiB less" $limit) -}}
{{- end -}}
{{- end -}}
