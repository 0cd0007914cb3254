package harness

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Broker is one broker of a Cluster.
type Broker struct {
	id                 int
	jars, dir          string
	direct, controller string   // addresses of the listeners for clients without a link, and for the other brokers
	listeners          []string // addresses of the listeners behind the links, by client
	advertised         []string // addresses of the links to these listeners
	options            ClusterOptions
	named              map[string]string // addresses of options.Listeners, by name

	mu      sync.Mutex
	process *Consumer
}

func newBroker(id int, o ClusterOptions) (*Broker, error) {
	addresses, err := lowAddresses(2 + 2*o.Links + len(o.Listeners))
	if err != nil {
		return nil, err
	}
	b := &Broker{
		id: id, jars: o.Jars, dir: filepath.Join(o.Dir, fmt.Sprint(id)), options: o, named: map[string]string{},
		direct: addresses[0], controller: addresses[1], listeners: addresses[2 : 2+o.Links], advertised: addresses[2+o.Links : 2+2*o.Links],
	}
	for i, l := range o.Listeners {
		b.named[l.Name] = addresses[2+2*o.Links+i]
	}
	return b, nil
}

// settings returns the broker's server.properties.
func (b *Broker) settings(voters string) string {
	listeners := []string{"DIRECT://" + b.direct, "CONTROLLER://" + b.controller}
	advertised := []string{"DIRECT://" + b.direct}
	protocols := []string{"DIRECT:PLAINTEXT", "CONTROLLER:PLAINTEXT"}
	for i := range b.listeners {
		listeners = append(listeners, fmt.Sprintf("CLIENT%d://%s", i, b.listeners[i]))
		advertised = append(advertised, fmt.Sprintf("CLIENT%d://%s", i, b.advertised[i]))
		protocols = append(protocols, fmt.Sprintf("CLIENT%d:PLAINTEXT", i))
	}
	var further []string
	for _, l := range b.options.Listeners {
		listeners = append(listeners, l.Name+"://"+b.named[l.Name])
		advertised = append(advertised, l.Name+"://"+b.named[l.Name])
		protocols = append(protocols, l.Name+":"+l.Protocol)
		for _, line := range l.Settings {
			further = append(further, "listener.name."+strings.ToLower(l.Name)+"."+line)
		}
	}
	further = append(further, b.options.Settings...)
	replicas, inSync := min(3, b.options.Brokers), min(2, b.options.Brokers)
	return strings.Join(append([]string{
		"process.roles=broker,controller",
		fmt.Sprintf("node.id=%d", b.id),
		"controller.quorum.voters=" + voters,
		"controller.listener.names=CONTROLLER",
		"inter.broker.listener.name=DIRECT",
		"listeners=" + strings.Join(listeners, ","),
		"advertised.listeners=" + strings.Join(advertised, ","),
		"listener.security.protocol.map=" + strings.Join(protocols, ","),
		"log.dirs=" + filepath.Join(b.dir, "data"),
		fmt.Sprintf("default.replication.factor=%d", replicas),
		fmt.Sprintf("min.insync.replicas=%d", inSync),
		fmt.Sprintf("offsets.topic.replication.factor=%d", replicas),
		"offsets.topic.num.partitions=8",
		fmt.Sprintf("transaction.state.log.replication.factor=%d", replicas),
		"transaction.state.log.num.partitions=8",
		fmt.Sprintf("share.coordinator.state.topic.replication.factor=%d", replicas),
		"group.initial.rebalance.delay.ms=0",
		"group.min.session.timeout.ms=1000",
		"auto.create.topics.enable=false",
	}, append(further, "")...), "\n")
}

// format writes the settings and prepares the data folder.
func (b *Broker) format(ctx context.Context, clusterID, voters string, further []string) error {
	if err := os.MkdirAll(b.dir, 0o750); err != nil {
		return fmt.Errorf("making broker %d's folder: %w", b.id, err)
	}
	if err := os.WriteFile(b.properties(), []byte(b.settings(voters)), 0o600); err != nil {
		return fmt.Errorf("writing broker %d's settings: %w", b.id, err)
	}
	args := append([]string{"format", "-t", clusterID, "-c", b.properties()}, further...)
	command := exec.CommandContext(ctx, "java", b.java("kafka.tools.StorageTool", args...)...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("formatting broker %d's data folder: %w\n%s", b.id, err, output)
	}
	return nil
}

func (b *Broker) properties() string { return filepath.Join(b.dir, "server.properties") }

// java returns the arguments that run a class of Kafka with little memory.
func (b *Broker) java(class string, args ...string) []string {
	memory := []string{"-Xms256m", "-Xmx256m", "-XX:+UseSerialGC"}
	return slices.Concat(memory, b.options.Java, []string{"-cp", filepath.Join(b.jars, "*"), class}, args)
}

// Start starts the broker's process on the data it has. Cluster.AwaitBrokers waits until the broker answers.
func (b *Broker) Start() error {
	process, err := Start("java", Settings{}, b.java("kafka.Kafka", b.properties())...)
	if err != nil {
		return fmt.Errorf("starting broker %d: %w", b.id, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.process = process
	return nil
}

// Running reports whether the broker's process runs.
func (b *Broker) Running() bool {
	p := b.current()
	return p != nil && p.Running()
}

// listening reports whether the broker accepts connections on all its listeners.
func (b *Broker) listening(ctx context.Context) bool {
	dialer := net.Dialer{Timeout: time.Second}
	for _, address := range slices.Concat([]string{b.direct}, b.listeners, slices.Collect(maps.Values(b.named))) {
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return false
		}
		connection.Close()
	}
	return true
}

func (b *Broker) current() *Consumer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.process
}

// Kill ends the broker with SIGKILL.
func (b *Broker) Kill() {
	if p := b.current(); p != nil {
		p.Kill()
	}
}

// Stop ends the broker with SIGTERM and waits for its end.
func (b *Broker) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	if _, err := b.current().Terminate(ctx); err != nil {
		return fmt.Errorf("stopping broker %d: %w", b.id, err)
	}
	return nil
}

// ID is the broker's node id.
func (b *Broker) ID() int { return b.id }
