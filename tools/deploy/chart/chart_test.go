package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"waterwheel/config"
)

const (
	root      = "../../.."
	chartPath = root + "/deploy/chart"
)

// values returns the least values that the chart can be installed with, and more settings.
func values(settings ...any) map[string]any {
	env := map[string]any{"KAFKA_BROKERS": "kafka-1:9092,kafka-2:9092", "KAFKA_TOPICS": "measurements, events"}
	for i := 0; i < len(settings); i += 2 {
		env[settings[i].(string)] = settings[i+1]
	}
	return map[string]any{"existingSecret": "waterwheel", "env": env}
}

// everything returns values with all options that are off by default.
func everything() map[string]any {
	all := values("FLUSH_INTERVAL", "10s", "FLUSH_COUNT", 250000, "BUCKET_REOPEN", false, "EVENT_META_FIELD", "", "EVENT_META_FROM", "key", "LOG_LEVEL", "warn")
	for _, name := range []string{"podDisruptionBudget", "serviceMonitor", "dashboard"} {
		all[name] = map[string]any{"enabled": true} // a new map each time, because Helm writes into it
	}
	all["prometheusRule"] = map[string]any{"enabled": true, "runbookUrl": "https://wiki.example/runbook", "labels": map[string]any{"release": "kube"}}
	all["scaling"] = map[string]any{"enabled": true, "maxReplicas": 24, "lagThreshold": 2000000, "authentication": "kafka"}
	all["extraEnv"] = []any{map[string]any{"name": "TZ", "value": "UTC"}}
	all["extraVolumes"] = []any{map[string]any{"name": "ca", "configMap": map[string]any{"name": "ca"}}}
	all["extraVolumeMounts"] = []any{map[string]any{"name": "ca", "mountPath": "/ca"}}
	all["extraContainers"] = []any{map[string]any{"name": "signer", "image": "signer:1"}}
	all["tolerations"] = []any{map[string]any{"key": "a", "operator": "Exists"}}
	all["podAnnotations"] = map[string]any{"a": "b"}
	return all
}

func render(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	objects, err := Render(chartPath, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// decode reads an object into its own type, which must know every field.
func decode[T any](t *testing.T, objects map[string]string, template string) T {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict([]byte(objects[template]), &object); err != nil {
		t.Fatalf("%s: %v\n%s", template, err, objects[template])
	}
	return object
}

func TestHelmFindsNoFault(t *testing.T) {
	for name, v := range map[string]map[string]any{"least": values(), "everything": everything()} {
		for _, m := range lint.RunAll(chartPath, v, Namespace).Messages {
			if !strings.Contains(m.Error(), "icon is recommended") {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// TestObjectsAreOfTheirTypes checks that each object decodes strictly, and that there are no others.
func TestObjectsAreOfTheirTypes(t *testing.T) {
	objects := render(t, everything())
	set := decode[apps.StatefulSet](t, objects, "statefulset.yaml")
	service := decode[core.Service](t, objects, "service.yaml")
	budget := decode[policy.PodDisruptionBudget](t, objects, "poddisruptionbudget.yaml")
	monitor := decode[monitoring.ServiceMonitor](t, objects, "servicemonitor.yaml")
	rules := decode[monitoring.PrometheusRule](t, objects, "prometheusrule.yaml")
	scaled := decode[keda.ScaledObject](t, objects, "scaledobject.yaml")
	dashboard := decode[core.ConfigMap](t, objects, "dashboard.yaml")
	if len(objects) != 7 {
		t.Errorf("%d objects", len(objects))
	}
	if least := render(t, values()); len(least) != 2 {
		t.Errorf("with the least values there are %d objects, want a StatefulSet and a Service", len(least))
	}
	pod := set.Spec.Template
	if c := pod.Spec.Containers; len(c) != 2 || c[0].Name != "waterwheel" || c[1].Image != "signer:1" {
		t.Errorf("the pod's containers: %+v", c)
	}
	for name, selector := range map[string]map[string]string{
		"StatefulSet": set.Spec.Selector.MatchLabels, "Service": service.Spec.Selector,
		"PodDisruptionBudget": budget.Spec.Selector.MatchLabels,
		"spread":              pod.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
	} {
		for label, value := range selector {
			if pod.Labels[label] != value || len(selector) != 2 {
				t.Errorf("the selector of the %s does not find the pods: %v, %v", name, selector, pod.Labels)
			}
		}
	}
	for label, value := range monitor.Spec.Selector.MatchLabels {
		if service.Labels[label] != value {
			t.Errorf("the ServiceMonitor does not find the Service by %s", label)
		}
	}
	if set.Spec.ServiceName != service.Name || scaled.Spec.ScaleTargetRef.Name != set.Name || monitor.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name {
		t.Error("an object names another one that is not there")
	}
	if len(rules.Spec.Groups) != 2 || len(rules.Spec.Groups[1].Rules) < 12 || rules.Labels["release"] != "kube" {
		t.Errorf("the rules are not all there: %d groups", len(rules.Spec.Groups))
	}
	for _, rule := range rules.Spec.Groups[1].Rules {
		if !strings.HasPrefix(rule.Annotations["runbook_url"], "https://wiki.example/runbook#") {
			t.Errorf("the alert %s links to %s", rule.Alert, rule.Annotations["runbook_url"])
		}
	}
	written, err := os.ReadFile(root + "/deploy/grafana/waterwheel.json")
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Compact(&want, written); err != nil || strings.TrimSpace(dashboard.Data["waterwheel.json"]) != strings.TrimSpace(want.String()) {
		t.Errorf("the dashboard is not that of deploy/grafana (%v)", err)
	}
}

// TestPodIsConfined checks that the pod has no rights that a consumer does not need.
func TestPodIsConfined(t *testing.T) {
	pod := decode[apps.StatefulSet](t, render(t, values()), "statefulset.yaml").Spec.Template.Spec
	c := pod.Containers[0].SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || !slices.Equal(c.Capabilities.Drop, []core.Capability{"ALL"}) ||
		pod.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault || *pod.AutomountServiceAccountToken {
		t.Errorf("the pod may do more than it needs: %+v, %+v", pod.SecurityContext, c)
	}
}

// environment returns the variables of the pod as the program sees them. The files of the secret are in a temporary folder.
func environment(t *testing.T, set apps.StatefulSet) map[string]string {
	t.Helper()
	env, dir := map[string]string{}, t.TempDir()
	for _, v := range set.Spec.Template.Spec.Containers[0].Env {
		if _, twice := env[v.Name]; twice {
			t.Errorf("%s is given twice", v.Name)
		}
		env[v.Name] = v.Value
		if v.ValueFrom != nil {
			env[v.Name] = set.Name + "-0"
		}
		if name, is := strings.CutSuffix(v.Name, "_FILE"); is && strings.HasPrefix(v.Value, "/etc/waterwheel/secret/") {
			env[v.Name] = filepath.Join(dir, name)
			if err := os.WriteFile(env[v.Name], []byte("mongodb://user:secret@mongo/telemetry\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return env
}

// TestPodStartsTheProgram checks that the program accepts the settings, that its memory fits the pod's, and that it has time to
// end.
func TestPodStartsTheProgram(t *testing.T) {
	large := values()
	large["resources"] = map[string]any{"limits": map[string]any{"memory": "2Gi"}}
	for name, v := range map[string]map[string]any{"least": values(), "everything": everything(), "large": large, "empty": values("MEMORY_LIMIT", "")} {
		set := decode[apps.StatefulSet](t, render(t, v), "statefulset.yaml")
		env := environment(t, set)
		var environ []string
		for name, value := range env {
			environ = append(environ, name+"="+value)
		}
		c, err := config.Load(func(name string) (string, bool) { value, ok := env[name]; return value, ok }, environ)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		limit := set.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value()
		if int64(c.Memory.Limit)+config.MemoryRoom != limit {
			t.Errorf("%s: MEMORY_LIMIT %v and %d are not the limit %d", name, c.Memory.Limit, config.MemoryRoom, limit)
		}
		if grace := time.Duration(*set.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second; grace <= c.Service.ShutdownTimeout {
			t.Errorf("%s: the grace %v is not more than SHUTDOWN_TIMEOUT %v", name, grace, c.Service.ShutdownTimeout)
		}
		if c.Kafka.InstanceID != "waterwheel-0" || c.Service.HTTPAddr != ":9464" || c.MongoDB.URI.Database() != "telemetry" {
			t.Errorf("%s: instance %q, address %q, database %q", name, c.Kafka.InstanceID, c.Service.HTTPAddr, c.MongoDB.URI.Database())
		}
		if name == "everything" && (c.Flush.Count != 250000 || c.Bucket.Reopen || c.Event.MetaField != "") {
			t.Errorf("a number is %d, a switch %v, an empty text %q", c.Flush.Count, c.Bucket.Reopen, c.Event.MetaField)
		}
	}
}

// TestScalingFollowsTheLag checks that each topic has a trigger, and that a partition that has stopped adds no consumer.
func TestScalingFollowsTheLag(t *testing.T) {
	objects := render(t, everything())
	scaled := decode[keda.ScaledObject](t, objects, "scaledobject.yaml")
	if decode[apps.StatefulSet](t, objects, "statefulset.yaml").Spec.Replicas != nil {
		t.Error("the StatefulSet has a number of replicas, which KEDA would fight for")
	}
	var topics []string
	for _, trigger := range scaled.Spec.Triggers {
		m := trigger.Metadata
		topics = append(topics, m["topic"])
		if trigger.Type != "kafka" || m["allowIdleConsumers"] != "false" || m["excludePersistentLag"] != "true" || m["lagThreshold"] != "2000000" ||
			m["consumerGroup"] != "waterwheel" || trigger.AuthenticationRef.Name != "kafka" {
			t.Errorf("the trigger is %+v", trigger)
		}
	}
	patterns := values("KAFKA_TOPICS", `events,^sensors\.`, "KAFKA_BROKERS", "kafka:9092")
	patterns["scaling"] = map[string]any{"enabled": true}
	all := decode[keda.ScaledObject](t, render(t, patterns), "scaledobject.yaml").Spec.Triggers
	if _, named := all[0].Metadata["topic"]; len(all) != 1 || named {
		t.Errorf("triggers of a pattern: %+v", all)
	}
	down := scaled.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior.ScaleDown
	if !slices.Equal(topics, []string{"measurements", "events"}) || *scaled.Spec.MaxReplicaCount != 24 || *down.StabilizationWindowSeconds != 1800 {
		t.Errorf("topics %q, at most %d, stabilised for %d s", topics, *scaled.Spec.MaxReplicaCount, *down.StabilizationWindowSeconds)
	}
}

// TestWrongValuesAreRefused checks that a wrong value fails when the chart is installed. The error names the value.
func TestWrongValuesAreRefused(t *testing.T) {
	change := func(name string, value any) map[string]any {
		v := values()
		v[name] = value
		return v
	}
	topicsFile := values("KAFKA_TOPICS", "", "KAFKA_TOPICS_FILE", "/topics")
	topicsFile["scaling"] = map[string]any{"enabled": true}
	for i, c := range []struct {
		values map[string]any
		want   string
	}{
		{values("FLUSH_INTERVALL", "10s"), "FLUSH_INTERVALL"},
		{values("FLUSH_INTERVAL", "10 seconds"), "/env/FLUSH_INTERVAL"},
		{values("KAFKA_ISOLATION", "read_commited"), "/env/KAFKA_ISOLATION"},
		{values("BUCKET_MAX_COUNT", 0), "/env/BUCKET_MAX_COUNT"},
		{values("HTTP_ADDR", ":80"), "HTTP_ADDR"},
		{change("secretSettings", []any{"MONGODB_PASSWORD"}), "/secretSettings"},
		{change("replica", 3), "replica"},
		{change("existingSecret", ""), "MONGODB_URI is required"},
		{values("KAFKA_TOPICS", ""), "KAFKA_TOPICS is required"},
		{topicsFile, "scaling.enabled needs KAFKA_TOPICS in env"},
		{change("resources", map[string]any{"limits": map[string]any{"memory": "1e9"}}), "write it in Mi or Gi"},
	} {
		if _, err := Render(chartPath, c.values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("case %d: %v, want %q", i, err, c.want)
		}
	}
}

// TestManifestsAreRendered checks that the manifests are as "make manifests" writes them.
func TestManifestsAreRendered(t *testing.T) {
	text, err := os.ReadFile(root + "/deploy/manifests/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var with map[string]any
	if err := yaml.UnmarshalStrict(text, &with); err != nil {
		t.Fatal(err)
	}
	files, err := Manifests(chartPath, with)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		written, err := os.ReadFile(root + "/deploy/manifests/" + name)
		if err != nil || string(written) != content {
			t.Errorf("deploy/manifests/%s is not what the chart renders (%v): run make manifests", name, err)
		}
		if strings.Contains(content, "Helm") {
			t.Errorf("deploy/manifests/%s says that Helm manages it", name)
		}
	}
	if len(files) != 2 {
		t.Errorf("%d files", len(files))
	}
}

// TestEveryValueIsUsed checks this because a value without a template that uses it has no effect.
func TestEveryValueIsUsed(t *testing.T) {
	var defaults map[string]any
	text, err := os.ReadFile(chartPath + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &defaults); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(chartPath + "/templates/*")
	if err != nil || len(names) > 10 {
		t.Fatalf("%d templates, want 10 at most: %v", len(names), err)
	}
	var templates strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		templates.Write(text)
	}
	var look func(prefix string, values map[string]any)
	look = func(prefix string, values map[string]any) {
		for name, value := range values {
			if inner, is := value.(map[string]any); is && len(inner) > 0 && prefix == "Values" && !slices.Contains([]string{"env", "resources"}, name) {
				look(prefix+"."+name, inner)
				continue
			}
			if !regexp.MustCompile(regexp.QuoteMeta(fmt.Sprintf("%s.%s", prefix, name)) + `\b`).MatchString(templates.String()) {
				t.Errorf("no template uses %s.%s", prefix, name)
			}
		}
	}
	look("Values", defaults)
}

// TestPageInstalls checks that the chart accepts the values of docs/deploy.md, and that all YAML of the page can be read.
func TestPageInstalls(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	installed := 0
	for _, block := range blocks {
		var with map[string]any
		if err := yaml.UnmarshalStrict([]byte(block[1]), &with); err != nil {
			t.Errorf("%v:\n%s", err, block[1])
		}
		if with["image"] == nil {
			continue
		}
		installed++
		objects := render(t, with)
		set := decode[apps.StatefulSet](t, objects, "statefulset.yaml")
		if image := set.Spec.Template.Spec.Containers[0].Image; image != "registry.example/waterwheel:v1.0.0" || len(objects) != 6 {
			t.Errorf("the image is %s, there are %d objects", image, len(objects))
		}
		environment(t, set)
	}
	if len(blocks) != 3 || installed != 1 {
		t.Errorf("%d blocks, %d of them values", len(blocks), installed)
	}
}
