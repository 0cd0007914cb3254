package config

import (
	"fmt"
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

// ChangedSecrets returns the names of the secret settings that differ between two readings. It returns an error if a secret is no
// longer set: a file that was truncated must not turn a login off.
func ChangedSecrets(before, after *Config) (names []string, err error) {
	old := fields(before)
	for i, f := range fields(after) {
		was, is := old[i].value.Interface(), f.value.Interface()
		if !f.secret() || is == was {
			continue
		}
		if f.value.IsZero() {
			return nil, fmt.Errorf("%s is no longer set: to go on without it, start again", f.name())
		}
		names = append(names, f.name())
	}
	return names, nil
}
