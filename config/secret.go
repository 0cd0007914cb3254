package config

import (
	"strconv"
	"strings"
)

// masked stands for what is not shown.
const masked = "***"

// mayHoldLogin reports whether a text that should be something else may be an address with a user and a password.
func mayHoldLogin(text string) bool { return strings.ContainsRune(text, '@') }

// quoted is a text for a message about it.
func quoted(text string) string {
	if mayHoldLogin(text) {
		return masked
	}
	return strconv.Quote(text)
}

// Secret is a value that no printing, logging or marshalling shows.
type Secret string

// Reveal is the value itself.
func (s Secret) Reveal() string { return string(s) }

// String is a mask; empty when there is nothing to hide.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString is the same mask, for %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText is the same mask, for JSON and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ChangedSecrets are the names of the settings with a secret that differ between two readings.
func ChangedSecrets(before, after *Config) (names []string) {
	old := fields(before)
	for i, f := range fields(after) {
		if f.secret() && f.value.Interface() != old[i].value.Interface() {
			names = append(names, f.name())
		}
	}
	return names
}
