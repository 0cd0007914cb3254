package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Problem is one thing wrong with the settings.
type Problem struct {
	// Variable is the setting's name.
	Variable string
	// Value is the setting's value, masked if it is a secret. Empty means that it is not set.
	Value string
	// Message says what is wrong and what would be right.
	Message string
}

// String formats the problem on one line.
func (p Problem) String() string {
	if p.Value == "" {
		return p.Variable + ": " + p.Message
	}
	return fmt.Sprintf("%s=%s: %s", p.Variable, p.Value, p.Message)
}

// Error lists everything that is wrong with the settings, in the order of the reference.
type Error struct {
	Problems []Problem
}

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	return "wrong settings:\n  " + strings.Join(lines, "\n  ")
}

// Warning is about a setting that works but has a cost.
type Warning struct {
	// Setting is the setting's name and value.
	Setting string
	// Message says what the setting costs.
	Message string
	// WayOut says what to set instead.
	WayOut string
}

// Warnings returns the warnings that a start logs about the settings.
func (c Config) Warnings() []Warning {
	var list []Warning
	if len(c.hidden) > 0 {
		list = append(list, hiddenWarning(c.hidden))
	}
	if len(c.unread) > 0 {
		list = append(list, unreadWarning(c.unread))
	}
	for _, f := range fields(&c) {
		if text := f.value.String(); f.value.Kind() == reflect.String && !f.secret() && strings.Trim(text, " \t") != text {
			list = append(list, Warning{f.name(), "the value begins or ends with a space, which is a part of the value", "remove the space if it is not intended"})
		}
	}
	if c.Security.Protocol == "sasl_plaintext" {
		list = append(list, Warning{
			"KAFKA_SECURITY=sasl_plaintext", "logins and records cross the network unencrypted" + c.Security.plainPassword(), "use sasl_tls",
		})
	}
	if c.Security.TLSInsecure {
		list = append(list, Warning{
			"KAFKA_TLS_INSECURE=true", "any certificate is accepted: an attacker in the network between this consumer and the brokers can read and change all data" +
				c.Security.plainPassword(), "set KAFKA_TLS_CA_FILE to the certificate authority of the brokers",
		})
	}
	if r := c.Registry; r.Username != "" || r.Token != "" {
		plain := slices.ContainsFunc(r.URLs, func(u string) bool { return strings.HasPrefix(u, "http://") })
		switch {
		case plain:
			list = append(list, Warning{"SCHEMA_REGISTRY_URL", "the login of the registry crosses the network unencrypted", "use an https:// address"})
		case r.TLSInsecure:
			list = append(list, Warning{
				"SCHEMA_REGISTRY_TLS_INSECURE=true", "any certificate is accepted: an attacker in the network between this consumer and the registry can read the login and change schemas",
				"set SCHEMA_REGISTRY_TLS_CA_FILE to the certificate authority of the registry",
			})
		}
	}
	return list
}

// plainPassword is the addition to a warning for the mechanism PLAIN.
func (s Security) plainPassword() string {
	if s.SASLMechanism == "PLAIN" {
		return ", and PLAIN sends the password without hashing it"
	}
	return ""
}
