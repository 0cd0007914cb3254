package config

import (
	"strconv"
	"strings"
)

// masked replaces values that are not shown.
const masked = "***"

// mayHoldLogin reports whether a text of another setting may be an address with a user and a password.
func mayHoldLogin(text string) bool { return strings.ContainsRune(text, '@') }

// quoted quotes a text for a message. It masks a text that may hold a login.
func quoted(text string) string {
	if mayHoldLogin(text) {
		return masked
	}
	return strconv.Quote(text)
}

// Secret is a value that is masked when it is printed, logged or marshalled.
type Secret string

// Reveal returns the value itself.
func (s Secret) Reveal() string { return string(s) }

// String returns a mask, or an empty string for an empty value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString returns the same mask, for %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText returns the same mask, for JSON and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ChangedSecrets returns the names of the secret settings that differ between two readings.
func ChangedSecrets(before, after *Config) (names []string) {
	old := fields(before)
	for i, f := range fields(after) {
		if f.secret() && f.value.Interface() != old[i].value.Interface() {
			names = append(names, f.name())
		}
	}
	return names
}
