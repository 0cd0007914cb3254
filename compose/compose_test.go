package compose

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waterwheel/config"
)

// readFile returns a file's text.
func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// services returns the services of docker-compose.yml.
func services(t *testing.T) map[string]map[string]any {
	t.Helper()
	root, err := readYAML(readFile(t, "docker-compose.yml"))
	if err != nil {
		t.Fatalf("docker-compose.yml: %v", err)
	}
	list := map[string]map[string]any{}
	for name, service := range root.(map[string]any)["services"].(map[string]any) {
		list[name] = service.(map[string]any)
	}
	return list
}

// words returns a list of texts.
func words(value any) (list []string) {
	items, _ := value.([]any)
	for _, item := range items {
		list = append(list, fmt.Sprint(item))
	}
	return list
}

// settings loads the consumer's settings from its environment in docker-compose.yml.
func settings(t *testing.T) config.Config {
	t.Helper()
	environment := map[string]string{}
	var environ []string
	for name, value := range services(t)["consumer"]["environment"].(map[string]any) {
		environment[name] = fmt.Sprint(value)
		environ = append(environ, name+"="+environment[name])
	}
	c, err := config.Load(func(name string) (string, bool) { value, ok := environment[name]; return value, ok }, environ)
	if err != nil {
		t.Fatalf("the consumer would not start: %v", err)
	}
	return c
}

func TestConsumerUnderstandsItsSettings(t *testing.T) {
	c, list := settings(t), services(t)
	for _, broker := range c.Kafka.Brokers {
		host, port, _ := net.SplitHostPort(broker)
		listeners := fmt.Sprint(list[host]["environment"].(map[string]any)["KAFKA_ADVERTISED_LISTENERS"])
		if !strings.Contains(listeners, "://"+host+":"+port) {
			t.Errorf("broker %s is not among %s", broker, listeners)
		}
	}
	uri, err := url.Parse(c.MongoDB.URI.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	mongo, set := words(list[uri.Hostname()]["command"]), uri.Query().Get("replicaSet")
	if i := slices.Index(mongo, "--replSet"); i < 0 || set == "" || mongo[i+1] != set {
		t.Errorf("MONGODB_URI wants the replica set %q of %s: %v", set, uri.Hostname(), mongo)
	}
	initiate := strings.Join(words(list["mongo-initiate"]["command"]), " ")
	if !strings.Contains(initiate, "_id: '"+set+"'") || !strings.Contains(initiate, "host: '"+uri.Host+"'") {
		t.Errorf("%s with set %q is not what is initiated: %s", uri.Host, set, initiate)
	}
	created := words(list["topics"]["command"])
	if i := slices.Index(created, "--topic"); i < 0 || !slices.Equal(c.Kafka.Topics, []string{created[i+1]}) {
		t.Errorf("the consumer reads %v, created is %v", c.Kafka.Topics, created)
	}
}

func TestPortsAndHealthAreThePrograms(t *testing.T) {
	_, port, err := net.SplitHostPort(settings(t).Service.HTTPAddr)
	if err != nil {
		t.Fatal(err)
	}
	consumer, dockerfile := services(t)["consumer"], readFile(t, "Dockerfile")
	if got := words(consumer["ports"]); len(got) != 1 || !strings.HasSuffix(got[0], ":"+port) {
		t.Errorf("published ports %v, HTTP_ADDR has %s", got, port)
	}
	if !strings.Contains(dockerfile, "\nEXPOSE "+port+"\n") {
		t.Errorf("the Dockerfile does not expose %s", port)
	}
	// The image has nothing else that could ask for its health.
	program := regexp.MustCompile(`COPY --from=build /waterwheel (\S+)`).FindStringSubmatch(dockerfile)[1]
	if check := words(consumer["healthcheck"].(map[string]any)["test"]); !slices.Equal(check, []string{"CMD", program, "health", "--ready"}) {
		t.Errorf("the health check of the consumer is %q", check)
	}
	if !strings.Contains(dockerfile, `CMD ["`+program+`", "health"]`) {
		t.Error("the health check of the image is not that of the program")
	}
}

// TestPagesAnswerOutsideTheContainer: by default they answer the process's own machine, which in a container nobody else is on.
func TestPagesAnswerOutsideTheContainer(t *testing.T) {
	if host, _, err := net.SplitHostPort(settings(t).Service.HTTPAddr); err != nil || host != "" {
		t.Errorf("HTTP_ADDR of the consumer answers %q only (%v)", host, err)
	}
	example := readFile(t, "../docs/runbook.md")
	probe := regexp.MustCompile(`readinessProbe: .*port: (\d+)`).FindStringSubmatch(example)
	if probe == nil || !strings.Contains(example, `{ name: HTTP_ADDR, value: ":`+probe[1]+`" }`) {
		t.Errorf("the example for Kubernetes has probes at port %v and does not open it", probe)
	}
}

func TestContainerOutlivesTheShutdown(t *testing.T) {
	c, consumer := settings(t), services(t)["consumer"]
	writeGrace, err := time.ParseDuration(fmt.Sprint(consumer["stop_grace_period"]))
	if err != nil || writeGrace <= c.Service.ShutdownTimeout {
		t.Errorf("stop_grace_period %v (%v), SHUTDOWN_TIMEOUT %v: it must be longer", writeGrace, err, c.Service.ShutdownTimeout)
	}
	limit, err := strconv.ParseInt(strings.TrimSuffix(fmt.Sprint(consumer["mem_limit"]), "m"), 10, 64)
	if err != nil || limit<<20 < int64(c.Memory.Limit)+config.MemoryRoom {
		t.Errorf("mem_limit %d MiB (%v), MEMORY_LIMIT %v: it must be %d MiB more", limit, err, c.Memory.Limit, config.MemoryRoom>>20)
	}
}

func TestEverythingIsPinnedAndChecked(t *testing.T) {
	pinned := regexp.MustCompile(`^[a-z/.-]+:\d+\.\d+\.\d+$`)
	images := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(readFile(t, "Dockerfile"), -1)
	for _, image := range images {
		if image[1] != "scratch" && !pinned.MatchString(image[1]) {
			t.Errorf("Dockerfile: image %s is not pinned to a version", image[1])
		}
	}
	list := services(t)
	for name, service := range list {
		if image, ok := service["image"].(string); ok && !pinned.MatchString(image) {
			t.Errorf("%s: image %s is not pinned to a version", name, image)
		}
		dependencies, _ := service["depends_on"].(map[string]any)
		for other, condition := range dependencies {
			target, known := list[other]
			_, checked := target["healthcheck"]
			switch condition.(map[string]any)["condition"] {
			case "service_healthy":
				known = known && checked
			case "service_completed_successfully":
				known = known && target["restart"] == nil
			default:
				known = false
			}
			if !known {
				t.Errorf("%s waits for %s, which is not there, has no health check or never completes", name, other)
			}
		}
	}
	for _, name := range []string{"kafka", "mongo", "consumer"} {
		if list[name]["healthcheck"] == nil {
			t.Errorf("%s has no health check", name)
		}
	}
}

// TestCommandsNameTheFile: they are given from the root of the repository, where there is no compose file.
func TestCommandsNameTheFile(t *testing.T) {
	commands := 0
	for line := range strings.Lines(readFile(t, "docker-compose.yml")) {
		if _, rest, ok := strings.Cut(line, "docker compose "); ok {
			commands++
			if !strings.HasPrefix(rest, "-f compose/docker-compose.yml ") {
				t.Errorf("%q does not say which file", strings.TrimSpace(line))
			}
		}
	}
	if commands != 2 {
		t.Errorf("%d commands, want 2", commands)
	}
}

func TestDockerfileBuildsTheProgram(t *testing.T) {
	dockerfile := readFile(t, "Dockerfile")
	release := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readFile(t, "../go.mod"))[1]
	for _, part := range []string{
		"FROM golang:" + release + ".", "CGO_ENABLED=0", "-o /waterwheel ./cmd/consumer", "USER 65532", `ENTRYPOINT ["/usr/local/bin/waterwheel"]`,
		"-X main.version=", "/etc/ssl/certs/ca-certificates.crt",
	} {
		if !strings.Contains(dockerfile, part) {
			t.Errorf("the Dockerfile lacks %q", part)
		}
	}
}

// TestProducerWritesEvents runs the producer's script without its endless loop and without Kafka.
func TestProducerWritesEvents(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash to run the producer's script with")
	}
	command := words(services(t)["producer"]["command"])
	script, _, found := strings.Cut(strings.ReplaceAll(command[len(command)-1], "$$", "$"), "| /opt/kafka")
	if !found {
		t.Fatalf("the script does not end in Kafka's producer:\n%s", command[len(command)-1])
	}
	out, err := exec.CommandContext(t.Context(), bash, "-c", strings.Replace(script, "while sleep 1", "for once in 1", 1)).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	event := regexp.MustCompile(`^(\{"sensor":"s\d"\})\|\{"time":\d{10},"meta":(\{"sensor":"s\d"\}),"temperature":\d+\.5,"humidity":\d+\}$`)
	for _, line := range lines {
		if parts := event.FindStringSubmatch(line); parts == nil || parts[1] != parts[2] {
			t.Errorf("not an event keyed by its meta: %s", line)
		}
	}
	if len(lines) != 5 {
		t.Errorf("%d events in one round, want 5", len(lines))
	}
}

func TestReaderOfYAMLRefusesWhatItDoesNotKnow(t *testing.T) {
	got, err := readYAML("# head\na:\n  b: 1\n  c:\n    - x\n    - [\"y\", \"z\"]\n\nd: |\n  one\n    two\ne: \"q\"\n")
	want := map[string]any{
		"a": map[string]any{"b": "1", "c": []any{"x", []any{"y", "z"}}}, "d": "one\n  two\n", "e": "q",
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{"a: {b: 1}", "a: *x", "a: 1\na: 2", "a: 'x'", "a: b: c", "a: 1 # x", "a:\n    b: 1\n  c: 2", "a"} {
		if got, err := readYAML(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}
