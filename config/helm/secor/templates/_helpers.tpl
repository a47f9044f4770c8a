{{- define "secor.fullname" -}}
{{- printf "secor-%s" (.Release.Name | trimPrefix "secor-") | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "secor.selector" -}}
app.kubernetes.io/name: secor
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "secor.labels" -}}
{{ include "secor.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "secor.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "secor.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- define "secor.secret" -}}
{{- .Values.secret.existing | default (include "secor.fullname" .) -}}
{{- end -}}

{{- /* The metadata and the spec of a pod; `arguments` are those of the command secor, `component`
tells its pods apart, `served` and `ready` say which probes it has. */ -}}
{{- define "secor.pod" -}}
metadata:
  labels:
    {{- include "secor.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with .root.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ .root.Values.config | sha256sum }}
    checksum/secret: {{ .root.Values.secret.values | toJson | sha256sum }}
    {{- with .root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .restartPolicy }}
  restartPolicy: {{ . }}
  {{- end }}
  serviceAccountName: {{ include "secor.serviceAccount" .root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
  {{- with .root.Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with .root.Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "secor.selector" .root | nindent 10 }}
          app.kubernetes.io/component: {{ .component }}
  containers:
    - name: secor
      image: {{ printf "%s:%s" .root.Values.image.repository (.root.Values.image.tag | default .root.Chart.AppVersion) | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args: {{ toJson .arguments }}
      {{- if or .root.Values.secret.existing .root.Values.secret.values }}
      envFrom:
        - secretRef: {name: {{ include "secor.secret" .root }}}
      {{- end }}
      {{- with .root.Values.env }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if .served }}
      ports:
        - {name: metrics, containerPort: 9878}
      # The loop turns.  Servers that are out do not fail it: a restart would not bring them back.
      startupProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 30
        timeoutSeconds: 10
        failureThreshold: 3
      {{- end }}
      {{- if .ready }}
      # Messages can be persisted: an update goes on to the next pod.
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 3
      {{- end }}
      resources:
        {{- toYaml .root.Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: configuration, mountPath: /etc/secor, readOnly: true}
        - {name: cache, mountPath: /var/cache/secor}
        {{- with .root.Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: configuration
      configMap: {name: {{ include "secor.fullname" .root }}}
    # A cache: it may go with the pod.
    - name: cache
      emptyDir: {sizeLimit: {{ .root.Values.cache.size }}}
    {{- with .root.Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
