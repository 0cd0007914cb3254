package sink

import (
	"net/url"
	"strings"
)

// uriDatabase is the database that a URI names behind its hosts; empty for none.
func uriDatabase(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	_, path, _ := strings.Cut(rest, "/")
	name, _, _ := strings.Cut(path, "?")
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

// redact takes the user and the password of a URI out of a text about it.
func redact(text, uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	end := strings.LastIndexByte(rest, '@')
	if end < 0 {
		return text
	}
	credentials := rest[:end]
	text = strings.ReplaceAll(text, credentials, "***")
	_, password, _ := strings.Cut(credentials, ":")
	for _, secret := range []string{password, unescaped(password)} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}

func unescaped(s string) string {
	plain, err := url.QueryUnescape(s)
	if err != nil {
		return s
	}
	return plain
}
