package harness

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
)

// Settings are environment variables of the program.
type Settings map[string]string

// Short returns settings for one topic. Their times are so short that a test sees rebalances, leases and hand-overs within
// seconds, and keep the proportions of the defaults. The variable E2E_SEGMENTS sets SEGMENTS. It lets the tests run with segments
// on a server whose views do not show them.
func (s *Servers) Short(topic, database string) Settings {
	settings := Settings{
		"KAFKA_BROKERS":            s.Brokers,
		"KAFKA_TOPICS":             topic,
		"KAFKA_GROUP_ID":           topic + "-group",
		"KAFKA_SESSION_TIMEOUT":    "6s",
		"KAFKA_HEARTBEAT_INTERVAL": "500ms",
		"KAFKA_REBALANCE_TIMEOUT":  "10s",
		"KAFKA_LEASE":              "2s",
		"COMMIT_INTERVAL":          "200ms",
		"FLUSH_INTERVAL":           "500ms",
		"MONGODB_URI":              cmp.Or(s.programURI, s.MongoURI),
		"MONGODB_DATABASE":         database,
		"MONGODB_WRITE_TIMEOUT":    "2s",
		"SHUTDOWN_TIMEOUT":         "15s",
		"LOG_FORMAT":               "text",
	}
	if segments := os.Getenv("E2E_SEGMENTS"); segments != "" {
		settings["SEGMENTS"] = segments
	}
	return settings
}

// With returns a copy with some settings changed. They are given as pairs of name and value.
func (s Settings) With(pairs ...string) Settings {
	changed := maps.Clone(s)
	for i := 0; i+1 < len(pairs); i += 2 {
		changed[pairs[i]] = pairs[i+1]
	}
	return changed
}

// Without returns a copy without the named settings.
func (s Settings) Without(names ...string) Settings {
	changed := maps.Clone(s)
	for _, name := range names {
		delete(changed, name)
	}
	return changed
}

// environ returns the whole environment of the program. It consists of these settings, and of the variables that any process
// needs.
func (s Settings) environ() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir(), "GORACE=halt_on_error=1"}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		env = append(env, name+"="+s[name])
	}
	return env
}

// Pairs returns a function for flag.FlagSet.Func. It splits NAME=VALUE, the form of a setting on a command line, and calls set.
func Pairs(set func(name, value string)) func(string) error {
	return func(pair string) error {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return errors.New("not NAME=VALUE")
		}
		set(name, value)
		return nil
	}
}

// lowAddresses returns n addresses of the loopback interface with free ports. The ports are below the system's range for outgoing
// connections, so a server that is started again finds its port free.
func lowAddresses(n int) ([]string, error) {
	addresses := make([]string, 0, n)
	for tries := 0; len(addresses) < n; tries++ {
		address := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000))
		listener, err := net.Listen("tcp", address)
		if err != nil {
			if tries > 100 {
				return nil, fmt.Errorf("looking for a free port: %w", err)
			}
			continue
		}
		defer listener.Close() // closed only after the last is found, so that no address is found twice
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// NewLinkAddress returns an address for a link or a server that may close and listen again.
func NewLinkAddress() (string, error) {
	addresses, err := lowAddresses(1)
	if err != nil {
		return "", err
	}
	return addresses[0], nil
}
