package security

import (
	"fmt"
	"strings"

	"waterwheel/e2e/harness"
)

// The listeners of the broker, beside the plain one.
const (
	login     = "LOGIN"     // SASL_PLAINTEXT
	secret    = "SECRET"    // SASL_SSL; its SCRAM is SCRAM-SHA-512 only
	brief     = "BRIEF"     // SASL_PLAINTEXT, whose logins end after two seconds
	encrypted = "ENCRYPTED" // SSL
	expired   = "EXPIRED"   // SSL with a certificate that was valid until an hour ago
	elsewhere = "ELSEWHERE" // SSL with a certificate of another name
	mutual    = "MUTUAL"    // SSL that requires a client certificate
	tokens    = "TOKENS"    // SASL_PLAINTEXT with tokens; a login ends when its token expires
)

// password is the password of all users. No message may contain it or wrongPassword.
const (
	password      = "r1ght-S3cret"
	wrongPassword = "wr0ng-S3cret"
)

// users returns the users that can log in. rights_test.go defines what each of them may do.
func users() []string {
	return []string{"writer", "least", "blind", "unreading", "groupless", "letterless", "makeless", "unwriting", "fleeting"}
}

func clusterOptions(jars, dir string, f files) harness.ClusterOptions {
	const jaas = "org.apache.kafka.common.security."
	plain := "plain.sasl.jaas.config=" + jaas + "plain.PlainLoginModule required"
	var format []string
	for _, user := range users() {
		plain += fmt.Sprintf(" user_%s=%q", user, password)
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			format = append(format, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, user, password))
		}
	}
	sasl := func(mechanisms ...string) []string {
		lines := []string{"sasl.enabled.mechanisms=" + strings.Join(mechanisms, ","), plain + ";"}
		for _, mechanism := range mechanisms[1:] {
			lines = append(lines, strings.ToLower(mechanism)+".sasl.jaas.config="+jaas+"scram.ScramLoginModule required;")
		}
		return lines
	}
	ssl := func(certificate string) []string {
		return []string{
			"ssl.keystore.type=PEM", "ssl.keystore.location=" + f.path(certificate+".pem"),
			"ssl.truststore.type=PEM", "ssl.truststore.location=" + f.path("known.crt"),
		}
	}
	keys := "file://" + f.path("keys.json")
	return harness.ClusterOptions{
		Jars: jars, Dir: dir, Brokers: 1, Format: format, Java: []string{"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + keys},
		Listeners: []harness.Listener{
			{Name: login, Protocol: "SASL_PLAINTEXT", Settings: sasl("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")},
			{Name: secret, Protocol: "SASL_SSL", Settings: append(sasl("PLAIN", "SCRAM-SHA-512"), ssl("broker")...)},
			{Name: brief, Protocol: "SASL_PLAINTEXT", Settings: append(sasl("PLAIN", "SCRAM-SHA-256"), "connections.max.reauth.ms=2000")},
			{Name: encrypted, Protocol: "SSL", Settings: ssl("broker")},
			{Name: expired, Protocol: "SSL", Settings: ssl("expired")},
			{Name: elsewhere, Protocol: "SSL", Settings: ssl("elsewhere")},
			{Name: mutual, Protocol: "SSL", Settings: append(ssl("broker"), "ssl.client.auth=required")},
			{Name: tokens, Protocol: "SASL_PLAINTEXT", Settings: []string{
				"sasl.enabled.mechanisms=OAUTHBEARER", "oauthbearer.sasl.jaas.config=" + jaas + "oauthbearer.OAuthBearerLoginModule required;",
				"oauthbearer.sasl.server.callback.handler.class=" + jaas + "oauthbearer.OAuthBearerValidatorCallbackHandler",
				"sasl.oauthbearer.jwks.endpoint.url=" + keys, "sasl.oauthbearer.expected.audience=" + tokenAudience, "sasl.oauthbearer.expected.issuer=" + tokenIssuer,
				"connections.max.reauth.ms=3600000",
			}},
		},
		Settings: []string{
			"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users=User:ANONYMOUS", // clients without a login, such as the tests
		},
	}
}

// at returns the settings for a listener, without a login.
func at(listener, topic string) harness.Settings {
	s := world.servers.Short(topic, topic).With("KAFKA_BROKERS", world.cluster.ListenerAddress(listener), "DLQ_PARTITIONS", "1")
	switch listener {
	case login, brief, tokens:
		return s.With("KAFKA_SECURITY", "sasl_plaintext")
	case secret:
		return s.With("KAFKA_SECURITY", "sasl_tls", "KAFKA_TLS_CA_FILE", world.files.path("known.crt"))
	}
	return s.With("KAFKA_SECURITY", "tls", "KAFKA_TLS_CA_FILE", world.files.path("known.crt"))
}

// as returns the settings with a login.
func as(s harness.Settings, mechanism, user string) harness.Settings {
	return s.With("KAFKA_SASL_MECHANISM", mechanism, "KAFKA_SASL_USERNAME", user, "KAFKA_SASL_PASSWORD", password)
}

// showing returns the settings with a client certificate.
func showing(s harness.Settings, certificate string) harness.Settings {
	return s.With("KAFKA_TLS_CERT_FILE", world.files.path(certificate+".crt"), "KAFKA_TLS_KEY_FILE", world.files.path(certificate+".key"))
}
