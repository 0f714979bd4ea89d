{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/*
A Deployment: (dict "root" . "component" NAME "of" .Values.controller or .Values.vipuProxy "roles" (list …) "account" NAME
"logLevel" 1 to 6). What stands in it follows from its roles.
*/}}
{{- define "ipu-operator.deployment" -}}
{{- $root := .root -}}
{{- $of := .of -}}
{{- $full := include "ipu-operator.fullname" $root -}}
{{- $isProxy := has "proxy" .roles -}}
{{- $isWebhook := has "webhook" .roles -}}
{{- $image := dict "root" $root "image" $of.image -}}
{{- $selector := include "ipu-operator.selectorLabels" (dict "root" $root "component" .component) -}}
{{- $hooks := $root.Values.admissionWebhooks -}}
{{- $hostNetwork := $of.hostNetwork | default false -}}
{{- $isScaled := and $root.Values.autoscaling.enabled (eq .component "vipu-proxy") -}}
{{- $config := include "ipu-operator.config" $root | fromYaml -}}
{{- /* A controller asks the proxy, a proxy that follows the one that leads for what the live page shows. */ -}}
{{- $isAskingProxy := or (and (has "controller" .roles) (not $isProxy)) (and $isProxy (ne (dig "proxy" "page" "off" $config | toString) "off")) -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $full }}-{{ .component }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "ipu-operator.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  {{- if not $isScaled }}
  replicas: {{ int $of.replicas }}
  {{- end }}
  selector:
    matchLabels:
      {{- $selector | nindent 6 }}
  strategy:
    rollingUpdate:
      {{- /* On the host's network two of them can't be on one node. */}}
      maxSurge: {{ ternary 0 1 $hostNetwork }}
      maxUnavailable: {{ ternary 1 0 $hostNetwork }}
  template:
    metadata:
      annotations:
        checksum/config: {{ include "ipu-operator.config" $root | sha256sum }}
        kubectl.kubernetes.io/default-container: ipu-operator
        {{- with $of.podAnnotations }}
        {{- include "ipu-operator.strings" . | trim | nindent 8 }}
        {{- end }}
      labels:
        {{- mergeOverwrite (include "ipu-operator.strings" $of.podLabels | fromYaml) (fromYaml (include "ipu-operator.labels" $root)) (fromYaml $selector) | toYaml | nindent 8 }}
    spec:
      {{- with include "ipu-operator.imagePullSecrets" $root }}
      {{- . | nindent 6 }}
      {{- end }}
      serviceAccountName: {{ .account }}
      automountServiceAccountToken: true
      {{- /* Of a Service ipuoperator-… they'd look like the configuration's, and be refused. */}}
      enableServiceLinks: false
      {{- if $hostNetwork }}
      hostNetwork: true
      {{- end }}
      dnsPolicy: {{ $of.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "ClusterFirst" $hostNetwork) }}
      terminationGracePeriodSeconds: 40
      {{- with $of.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      securityContext:
        {{- include "ipu-operator.podSecurityContext" $of.podSecurityContext | nindent 8 }}
      containers:
        - name: ipu-operator
          image: {{ include "ipu-operator.image" $image | quote }}
          imagePullPolicy: {{ include "ipu-operator.pullPolicy" $image }}
          args:
            - --roles={{ join "," .roles }}
            {{- with $of.extraArgs }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          env:
            - name: IPUOPERATOR_LEADER_ELECTION_IDENTITY
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            {{- if $isProxy }}
            - name: POD_IP
              valueFrom: {fieldRef: {fieldPath: status.podIP}}
            - name: IPUOPERATOR_PROXY_ADVERTISE
              value: $(POD_IP)
            {{- end }}
            {{- if not (dig "log" "level" "" $root.Values.operatorConfig) }}
            - name: IPUOPERATOR_LOG_LEVEL
              value: {{ int .logLevel | quote }}
            {{- end }}
            {{- with include "ipu-operator.proxyEnv" $root }}
            {{- . | trim | nindent 12 }}
            {{- end }}
            {{- with $of.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - {name: health, containerPort: 8081}
            - {name: metrics, containerPort: 8444}
            {{- if $isWebhook }}
            - {name: webhook, containerPort: {{ int $hooks.port }}}
            {{- end }}
            {{- if $isProxy }}
            - {name: http, containerPort: {{ int $root.Values.vipuProxy.proxyPort }}}
            - {name: partitions, containerPort: 8445}
            {{- if $root.Values.extendedScheduler.enabled }}
            - {name: scheduler, containerPort: 8446}
            {{- end }}
            {{- end }}
          {{- if $isProxy }}
          {{- /* /stats and /query are served until no node sends them here any more. */}}
          lifecycle:
            preStop: {sleep: {seconds: 3}}
          {{- end }}
          livenessProbe:
            httpGet: {path: /healthz, port: health}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            {{- /* One that is stuck or cut off gets no more requests after some 6 seconds. */}}
            httpGet: {path: /readyz, port: health}
            periodSeconds: 2
            timeoutSeconds: 2
            failureThreshold: 2
          resources:
            {{- include "ipu-operator.resources" $of.resources | nindent 12 }}
          securityContext:
            {{- include "ipu-operator.securityContext" $of.securityContext | nindent 12 }}
          volumeMounts:
            - {name: config, mountPath: /etc/ipu-operator, readOnly: true}
            {{- if $isAskingProxy }}
            - {name: proxy-token, mountPath: /var/run/secrets/ipu-operator, readOnly: true}
            {{- end }}
            {{- if and $isWebhook (not $hooks.patch.enabled) }}
            - {name: webhook-certificate, mountPath: /etc/ipu-operator-webhook, readOnly: true}
            {{- end }}
            {{- if and $isProxy $root.Values.extendedScheduler.clientCASecret }}
            - {name: scheduler-clients, mountPath: /etc/ipu-operator-scheduler, readOnly: true}
            {{- end }}
      volumes:
        - name: config
          configMap: {name: {{ $full }}-config}
        {{- if $isAskingProxy }}
        - name: proxy-token
          projected:
            sources:
              - serviceAccountToken: {audience: ipu-operator-proxy, expirationSeconds: 3600, path: token}
        {{- end }}
        {{- if and $isWebhook (not $hooks.patch.enabled) }}
        - name: webhook-certificate
          secret: {secretName: {{ $hooks.certificate.secretName | default (printf "%s-webhook-certificate" $full) }}}
        {{- end }}
        {{- if $isProxy }}
        {{- with $root.Values.extendedScheduler.clientCASecret }}
        - name: scheduler-clients
          secret: {secretName: {{ . }}, items: [{key: ca.crt, path: ca.crt}]}
        {{- end }}
        {{- end }}
      {{- with include "ipu-operator.nodeSelector" (dict "root" $root "selector" ($of.nodeSelector | default dict)) }}
      {{- nindent 6 . }}
      {{- end }}
      {{- with $of.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $of.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $of.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- toYaml $of.topologySpreadConstraints | nindent 8 }}
      {{- else if or $isScaled (gt (int $of.replicas) 1) }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          matchLabelKeys: [pod-template-hash] # an upgrade's new Pods, wherever the old ones are
          labelSelector:
            matchLabels:
              {{- $selector | nindent 14 }}
      {{- end }}
{{- end }}

{{- define "ipu-operator.podSecurityContext" -}}
{{- mergeOverwrite (dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 "fsGroup" 65532
    "seccompProfile" (dict "type" "RuntimeDefault")) (deepCopy .) | toYaml -}}
{{- end }}

{{- define "ipu-operator.securityContext" -}}
{{- mergeOverwrite (dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true
    "capabilities" (dict "drop" (list "ALL"))) (deepCopy .) | toYaml -}}
{{- end }}

{{- define "ipu-operator.resources" -}}
{{- mergeOverwrite (dict "requests" (dict "cpu" "50m" "memory" "32Mi")) (deepCopy .) | toYaml -}}
{{- end }}

{{/* The cluster's own names never go through a proxy. */}}
{{- define "ipu-operator.proxyEnv" -}}
{{- with .Values.proxyEnv -}}
{{- if or .httpProxy .httpsProxy -}}
{{- with .httpProxy -}}
- {name: HTTP_PROXY, value: {{ quote . }}}
{{- end }}
{{- with .httpsProxy }}
- {name: HTTPS_PROXY, value: {{ quote . }}}
{{- end }}
- {name: NO_PROXY, value: {{ compact (list .noProxy "localhost,127.0.0.1,::1,.svc,.cluster.local,$(KUBERNETES_SERVICE_HOST)") | join "," | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{/* What Pods that run a single command of ours have in common with the Deployments'. */}}
{{- define "ipu-operator.toolPod" -}}
{{- with include "ipu-operator.imagePullSecrets" . }}
{{- . }}
{{ end -}}
{{- with .Values.controller.priorityClassName -}}
priorityClassName: {{ . }}
{{ end -}}
restartPolicy: Never
enableServiceLinks: false
securityContext:
  {{- include "ipu-operator.podSecurityContext" .Values.controller.podSecurityContext | nindent 2 }}
{{- with include "ipu-operator.nodeSelector" (dict "root" . "selector" (.Values.controller.nodeSelector | default dict)) }}
{{ . }}
{{- end }}
{{- /* A cluster's only node may be one that isn't on its fabric. */}}
{{- $tolerations := .Values.controller.tolerations -}}
{{- with dig "node" "taint" "graphcore.ai/fabric-not-ready" .Values.operatorConfig -}}
{{- $tolerations = append $tolerations (dict "key" . "operator" "Exists" "effect" "NoSchedule") -}}
{{- end -}}
{{- with $tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
