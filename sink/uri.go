package sink

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// unreadableURI is about a URI that the driver does not take. Of the URI nothing is quoted, for any part of it may be of a
// password; only a name that DNS does not know is told.
func unreadableURI(err error, uri string) error {
	text, _, _ := strings.Cut(redact(err.Error(), uri), `"`) // from there on it quotes
	text = strings.TrimRight(text, " :")
	if unknown, ok := errors.AsType[*net.DNSError](err); ok && !strings.Contains(unknown.Name, "@") { // it may be known later
		return &OutageError{Doing: connecting, Err: fmt.Errorf("DNS does not know %s: is the name in MONGODB_URI written right, is the server "+
			"known there yet?", unknown.Name)}
	}
	return fmt.Errorf("MONGODB_URI: %s; it looks like mongodb://user:password@host:27017/database or mongodb+srv://…, with @ : / ? # %% of "+
		"user and password written %%40 %%3A %%2F %%3F %%23 %%25", text)
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
	plain, _ := url.QueryUnescape(password) // empty where that is not escaped as it should be
	for _, secret := range []string{password, plain} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}
