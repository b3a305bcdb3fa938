{{- define "callboard.labels" -}}
app.kubernetes.io/name: callboard
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "callboard.image" -}}
{{ required "image.repository is required: an image with the program" .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
