package config

import (
	"net/url"
	"regexp"
	"strings"
)

// masked stands for what is not shown.
const masked = "***"

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

// URI is a MongoDB connection string. Printing, logging and marshalling show it without its password.
type URI string

// Reveal is the URI itself.
func (u URI) Reveal() string { return string(u) }

// String is the URI with the password, and options that hold secrets, masked. User and password end at the last @, so that
// a password with characters that should have been escaped is masked whole.
func (u URI) String() string {
	scheme, rest, found := strings.Cut(string(u), "://")
	if !found {
		return Secret(u).String()
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, _, hasPassword := strings.Cut(rest[:at], ":")
		if hasPassword {
			user += ":" + masked
		}
		rest = user + rest[at:]
	}
	return scheme + "://" + secretOption.ReplaceAllString(rest, "${1}="+masked)
}

// secretOption matches the URI's options that hold secrets.
var secretOption = regexp.MustCompile(
	`(?i)\b(tlsCertificateKeyFilePassword|sslClientCertificateKeyPassword|authMechanismProperties|proxyPassword)=[^&]*`)

// GoString is String, for %#v.
func (u URI) GoString() string { return u.String() }

// MarshalText is String, for JSON and slog.
func (u URI) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Database is the database that the URI names behind its hosts; empty for none.
func (u URI) Database() string {
	_, rest, _ := strings.Cut(string(u), "://")
	_, path, _ := strings.Cut(rest, "/")
	name, _, _ := strings.Cut(path, "?")
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

// redact takes the URI's secrets out of a text about it.
func (u URI) redact(text string) string {
	text = strings.ReplaceAll(text, string(u), u.String())
	_, rest, _ := strings.Cut(string(u), "://")
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return text
	}
	_, password, _ := strings.Cut(rest[:at], ":")
	plain, err := url.PathUnescape(password)
	for _, secret := range []string{password, plain} {
		if secret != "" && err == nil {
			text = strings.ReplaceAll(text, secret, masked)
		}
	}
	return text
}
