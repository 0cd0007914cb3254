package config

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// checker collects problems with combinations of settings.
type checker struct {
	*Config
	bad      map[string]bool // variables with wrong values: no check uses them
	given    map[string]bool // variables that are set, rather than left to their default
	problems []Problem
}

// check finds problems beyond the bounds of single fields.
func check(c *Config, bad, given map[string]bool) []Problem {
	k := checker{Config: c, bad: bad, given: given}
	k.addresses()
	k.topics()
	k.security()
	k.timing()
	k.events()
	k.uri()
	k.database()
	k.storedFields()
	k.metaIndexes()
	k.collections()
	k.bucketing()
	k.rollups()
	k.deadLetters()
	k.serve()
	return k.problems
}

// good reports whether all these variables have values that a check can use.
func (k *checker) good(names ...string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return k.bad[n] })
}

// fail reports a problem, unless the variable already has one.
func (k *checker) fail(variable string, value any, format string, args ...any) {
	if k.bad[variable] {
		return
	}
	shown := fmt.Sprint(value)
	if mayHoldLogin(shown) {
		shown = masked
	}
	k.problems = append(k.problems, Problem{Variable: variable, Value: shown, Message: fmt.Sprintf(format, args...)})
}

// keyPair rejects a certificate without a key, and a key without a certificate. prefix is the beginning of their settings' names.
func (k *checker) keyPair(prefix, certificate, key string) {
	if (certificate == "") != (key == "") {
		k.fail(prefix+"_CERT_FILE", certificate, "this setting and %s_KEY_FILE must be set together: set both or neither", prefix)
	}
}

func (k *checker) addresses() {
	if k.good("KAFKA_BROKERS") {
		for i, broker := range k.Kafka.Brokers {
			host, port, err := net.SplitHostPort(broker)
			switch {
			case err == nil && brokerHost.MatchString(host) && isPort(port, 1):
			case strings.Contains(broker, "://"):
				k.fail("KAFKA_BROKERS", "", "address %d has a scheme: write only host:port here, and set encryption and login with KAFKA_SECURITY", i+1)
			case strings.ContainsAny(broker, "; \t"):
				k.fail("KAFKA_BROKERS", "", "address %d contains a semicolon or a space: write commas between addresses, as kafka-1:9092,kafka-2:9092", i+1)
			case harmless.MatchString(broker) && !mayHoldLogin(strings.Join(k.Kafka.Brokers, ",")):
				k.fail("KAFKA_BROKERS", broker, "not an address: write host:port, as kafka-1:9092")
			default: // it may contain a password
				k.fail("KAFKA_BROKERS", "", "entry %d is not an address: write host:port, as kafka-1:9092; write a login into KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD", i+1)
			}
		}
	}
	for _, listen := range [][2]string{{"HTTP_ADDR", k.Service.HTTPAddr}, {"PPROF_ADDR", k.Service.PprofAddr}} {
		if _, port, err := net.SplitHostPort(listen[1]); listen[1] != "" && (err != nil || !isPort(port, 0)) {
			k.fail(listen[0], listen[1], "not an address to listen at: write host:port or :port, as :9464")
		}
	}
	if k.Service.HTTPAddr != "" && k.Service.HTTPAddr == k.Service.PprofAddr {
		k.fail("PPROF_ADDR", k.Service.PprofAddr, "is the same address as HTTP_ADDR: choose another address for the profiles")
	}
}

var (
	// brokerHost matches a name or an address.
	brokerHost = regexp.MustCompile(`^[A-Za-z0-9._-]+$|^[0-9A-Fa-f:.]+(%[A-Za-z0-9]+)?$`)
	// harmless matches a name with or without a port. It cannot contain a login.
	harmless = regexp.MustCompile(`^[A-Za-z0-9._-]+(:[0-9]*)?$`)
)

func isPort(text string, least int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= least && n <= 65535
}

// timing rejects durations that would let a write outlive the right to write (the lease protocol), or the process.
func (k *checker) timing() {
	kafka, write := k.Kafka, k.MongoDB.WriteTimeout
	if least := 3 * k.Flush.CommitInterval; k.good("KAFKA_LEASE", "COMMIT_INTERVAL") && kafka.Lease < least {
		k.fail("KAFKA_LEASE", formatDuration(kafka.Lease), "must be at least 3 × COMMIT_INTERVAL = %s", formatDuration(least))
	}
	if k.good("KAFKA_REBALANCE_TIMEOUT", "MONGODB_WRITE_TIMEOUT") && kafka.RebalanceTimeout/2 <= write {
		k.fail("KAFKA_REBALANCE_TIMEOUT", formatDuration(kafka.RebalanceTimeout),
			"must be more than 2 × MONGODB_WRITE_TIMEOUT = %s: a rebalance waits for the writes in flight", formatDuration(2*write))
	}
	if k.good("SHUTDOWN_TIMEOUT", "MONGODB_WRITE_TIMEOUT") && k.Service.ShutdownTimeout <= write {
		k.fail("SHUTDOWN_TIMEOUT", formatDuration(k.Service.ShutdownTimeout),
			"must be more than MONGODB_WRITE_TIMEOUT = %s: the shutdown waits for the writes in flight", formatDuration(write))
	}
	if k.good("KAFKA_HEARTBEAT_INTERVAL", "KAFKA_SESSION_TIMEOUT") && 3*kafka.HeartbeatInterval > kafka.SessionTimeout {
		k.fail("KAFKA_HEARTBEAT_INTERVAL", formatDuration(kafka.HeartbeatInterval),
			"must be at most a third of KAFKA_SESSION_TIMEOUT = %s", formatDuration(kafka.SessionTimeout))
	}
}

// wholeSeconds rejects a duration that is not in whole seconds, because MongoDB cannot store it.
func (k *checker) wholeSeconds(variable string, d time.Duration) {
	if d%time.Second != 0 {
		k.fail(variable, formatDuration(d), "must be whole seconds")
	}
}

// isLoopback reports whether a host is a loopback address or localhost.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// PagePort returns the TCP port of the status page. It is zero if other machines cannot reach the page.
func (s Service) PagePort() uint16 {
	host, port, err := net.SplitHostPort(s.HTTPAddr)
	if err != nil || isLoopback(host) {
		return 0
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(number)
}

// serve checks the settings of reading over HTTP.
func (k *checker) serve() {
	s := k.Serve
	if _, port, err := net.SplitHostPort(s.Addr); err != nil || !isPort(port, 0) {
		k.fail("SERVE_ADDR", s.Addr, "not an address to listen at: write host:port or :port, as :9465")
	}
	k.keyPair("SERVE_TLS", s.CertFile, s.KeyFile)
}
