package security

import (
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// wrong is a mistake in the settings. The program must end with a message that says what to do.
type wrong struct {
	name     string
	settings harness.Settings
	says     []string // all of these, in any order
}

// TestWrongLoginsAreNamed checks that a refused client gets a message with the reason.
func TestWrongLoginsAreNamed(t *testing.T) {
	needsBroker(t)
	plaintext := func(listener string) harness.Settings {
		return at(login, guarded).With("KAFKA_BROKERS", world.cluster.ListenerAddress(listener))
	}
	bare := func(s harness.Settings) harness.Settings { return s.Without("KAFKA_SECURITY", "KAFKA_TLS_CA_FILE") }
	tls := func(listener string) harness.Settings {
		return at(encrypted, guarded).With("KAFKA_BROKERS", world.cluster.ListenerAddress(listener))
	}
	password := []string{"KAFKA_SASL_PASSWORD", "writer"}
	cases := []wrong{
		{"PLAIN, the wrong password", as(at(login, guarded), "PLAIN", "writer").With("KAFKA_SASL_PASSWORD", wrongPassword), password},
		{"SCRAM-SHA-256, the wrong password", as(at(login, guarded), "SCRAM-SHA-256", "writer").With("KAFKA_SASL_PASSWORD", wrongPassword), password},
		{"SCRAM-SHA-512, the wrong password", as(at(login, guarded), "SCRAM-SHA-512", "writer").With("KAFKA_SASL_PASSWORD", wrongPassword), password},
		{"TLS and SCRAM-SHA-512, the wrong password", as(at(secret, guarded), "SCRAM-SHA-512", "writer").With("KAFKA_SASL_PASSWORD", wrongPassword), password},
		{"TLS and PLAIN, the wrong password", as(at(secret, guarded), "PLAIN", "writer").With("KAFKA_SASL_PASSWORD", wrongPassword), password},
		{"nobody's name", as(at(login, guarded), "SCRAM-SHA-256", "nobody"), []string{"KAFKA_SASL_USERNAME", "nobody"}},
		{"a mechanism that is not offered", as(at(secret, guarded), "SCRAM-SHA-256", "writer"), []string{"KAFKA_SASL_MECHANISM", "SCRAM-SHA-512", "PLAIN"}},
		{"no SASL at a SASL port", bare(plaintext(login)), []string{"KAFKA_SECURITY", "sasl_plaintext"}},
		{"no SASL at a SASL port with TLS", tls(secret), []string{"KAFKA_SECURITY", "sasl_tls"}},
		{"SASL at a plain port", as(plaintext(login), "PLAIN", "writer").With("KAFKA_BROKERS", world.cluster.Address()), []string{"does not accept SASL", "KAFKA_SECURITY"}},
		{"SASL at a TLS port without SASL", as(at(secret, guarded), "PLAIN", "writer").With("KAFKA_BROKERS", world.cluster.ListenerAddress(encrypted)), []string{"does not accept SASL", "KAFKA_SECURITY"}},
	}
	for _, c := range cases {
		t.Run(c.name, c.test)
	}
	// A broker that closes the connection before its first answer may be down behind a proxy. Only run waits for it.
	waited := []wrong{
		{"plain at a TLS port", bare(plaintext(encrypted)), []string{"KAFKA_SECURITY", "tls"}},
		{"SASL without TLS at a TLS port", as(plaintext(secret), "PLAIN", "writer"), []string{"KAFKA_SECURITY", "sasl_tls"}},
		{"TLS at a plain port", at(encrypted, guarded).With("KAFKA_BROKERS", world.cluster.Address()), []string{"does not speak TLS", "KAFKA_SECURITY"}},
		{"TLS at a SASL port without TLS", tls(login), []string{"does not speak TLS", "KAFKA_SECURITY"}},
	}
	for _, c := range waited {
		t.Run(c.name, func(t *testing.T) { c.look(t, true) })
	}
}

// TestWrongCertificatesAreNamed checks wrong certificates of the broker and of the client.
func TestWrongCertificatesAreNamed(t *testing.T) {
	needsBroker(t)
	client := []string{"KAFKA_TLS_CERT_FILE"}
	for _, c := range []wrong{
		{"expired", at(expired, guarded), []string{"not valid at this time"}},
		{"of an unknown authority", at(encrypted, guarded).With("KAFKA_TLS_CA_FILE", world.files.path("unknown.crt")), []string{"KAFKA_TLS_CA_FILE"}},
		{"of an authority the system does not know", at(encrypted, guarded).Without("KAFKA_TLS_CA_FILE"), []string{"KAFKA_TLS_CA_FILE"}},
		{"of another name", at(elsewhere, guarded), []string{"KAFKA_TLS_SERVER_NAME", "127.0.0.1"}},
		{"the client's is missing", at(mutual, guarded), client},
		{"the client's is of an unknown authority", showing(at(mutual, guarded), "stranger"), client},
		{"the client's has expired", showing(at(mutual, guarded), "late"), client},
		{"the client's key is another's", at(mutual, guarded).With("KAFKA_TLS_CERT_FILE", world.files.path("writer.crt"), "KAFKA_TLS_KEY_FILE", world.files.path("late.key")), []string{"KAFKA_TLS_CERT_FILE", "KAFKA_TLS_KEY_FILE"}},
	} {
		t.Run(c.name, c.test)
	}
}

// TestMissingRightsAreNamed checks that each message names the resource and the operation.
func TestMissingRightsAreNamed(t *testing.T) {
	needsBroker(t)
	user := func(name string) harness.Settings { return as(at(login, guarded), "SCRAM-SHA-256", name) }
	for _, c := range []wrong{
		{"no right for the topic", user("blind"), []string{guarded, "READ and DESCRIBE"}},
		{"the topic cannot be read", user("unreading"), []string{guarded, "READ"}},
		{"no right for the group", user("groupless"), []string{guarded + "-group", "READ on", "KAFKA_GROUP_ID"}},
		{"letters cannot be written", user("letterless"), []string{guardedDeadLetters, "WRITE"}},
		{"letters' topic cannot be seen", user("unwriting").With("DLQ_TOPIC", missingDeadLetters), []string{missingDeadLetters, "WRITE"}},
		{"letters' topic cannot be made", user("makeless").With("DLQ_TOPIC", missingDeadLetters), []string{missingDeadLetters, "CREATE", "DLQ_CREATE"}},
	} {
		t.Run(c.name, c.test)
	}
}

// test calls look for a mistake that the program does not wait for.
func (w wrong) test(t *testing.T) { w.look(t, false) }

// look starts check and run, and checks how they end. If waits is set, run ends only after START_TIMEOUT.
func (w wrong) look(t *testing.T, waits bool) {
	t.Helper()
	t.Parallel()
	for _, start := range []struct {
		command string
		code    int
	}{{"check", 3}, {"run", 1}} {
		c, err := harness.Start(world.binary, w.settings.With("START_TIMEOUT", "3s"), start.command)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Kill()
		code, err := c.Wait(within(t, 40*time.Second))
		printed := c.Log()
		if err != nil || code != start.code {
			t.Errorf("%s: exit code %d, want %d, %v", start.command, code, start.code, err)
		}
		for _, part := range append(w.says, "") {
			if !strings.Contains(printed, part) {
				t.Errorf("%s does not say %q", start.command, part)
			}
		}
		if waited := strings.Contains(printed, `err="waited `); waited != (waits && start.command == "run") {
			t.Errorf("%s waited: %v", start.command, waited)
		}
		for _, never := range []string{"goroutine ", "panic:", password, wrongPassword, "BEGIN"} {
			if strings.Contains(printed, never) {
				t.Errorf("%s printed %q", start.command, never)
			}
		}
		t.Logf("%s:\n%s", start.command, printed)
	}
}
