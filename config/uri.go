package config

import (
	"net/url"
	"regexp"
	"strings"
)

// URI is a MongoDB connection string. Its password is masked when it is printed, logged or marshalled.
type URI string

// Reveal returns the URI itself.
func (u URI) Reveal() string { return string(u) }

// String returns the URI with its password, and options that hold secrets, masked. It masks a malformed URI completely, because
// any part of it may be the password.
func (u URI) String() string {
	p, ok := u.parts()
	if !ok {
		return Secret(u).String()
	}
	user, _, hasPassword := strings.Cut(p.user, ":")
	if hasPassword {
		user += ":" + masked
	}
	if p.user != "" {
		user += "@"
	}
	return p.scheme + "://" + user + p.hosts + secretOption.ReplaceAllString(p.rest, "${1}="+masked)
}

// secretOption matches the URI's options that hold secrets.
var secretOption = regexp.MustCompile(
	`(?i)\b(tlsCertificateKeyFilePassword|sslClientCertificateKeyPassword|authMechanismProperties|proxyPassword)=[^&]*`)

// GoString returns String, for %#v.
func (u URI) GoString() string { return u.String() }

// MarshalText returns String, for JSON and slog.
func (u URI) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Database returns the database that the URI names after its hosts. It is empty if there is none.
func (u URI) Database() string {
	_, rest, _ := strings.Cut(string(u), "://")
	_, path, _ := strings.Cut(rest, "/")
	name, _, _ := strings.Cut(path, "?")
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

// Hosts returns the addresses in the URI, as written there. It is empty if the URI is malformed.
func (u URI) Hosts() string {
	p, ok := u.parts()
	if !ok {
		return ""
	}
	return p.hosts
}

// uriParts are the parts of a well-formed URI.
type uriParts struct {
	scheme string
	user   string // user:password; empty if there is none
	hosts  string
	rest   string // starts with the first / or ?
}

// A URI's parts must match these expressions. In any other form it is unknown where a password begins and ends. A host may be the
// escaped path of a socket.
var (
	uriUser = regexp.MustCompile(`^([^:/?#@%\[\]\s]|%[0-9A-Fa-f]{2})*(:([^:/?#@%\[\]\s]|%[0-9A-Fa-f]{2})*)?$`)
	uriHost = regexp.MustCompile(`^([A-Za-z0-9._-]|%[0-9A-Fa-f]{2})+(:[0-9]{1,5})?$|^\[[0-9A-Fa-f:.]+(%25[A-Za-z0-9]+)?\](:[0-9]{1,5})?$`)
	uriRest = regexp.MustCompile(`^(/[^/?@\s]*)?(\?[^?\s]*)?$`)
)

// parts splits the URI. False means that it is malformed.
func (u URI) parts() (p uriParts, ok bool) {
	scheme, after, _ := strings.Cut(string(u), "://")
	end := strings.IndexAny(after, "/?")
	if end < 0 {
		end = len(after)
	}
	p = uriParts{scheme: scheme, hosts: after[:end], rest: after[end:]}
	if at := strings.IndexByte(p.hosts, '@'); at >= 0 {
		p.user, p.hosts = p.hosts[:at], p.hosts[at+1:]
	} else if strings.Contains(p.rest, "@") {
		return p, false // it may belong to a password that began before
	}
	for host := range strings.SplitSeq(p.hosts, ",") {
		if !uriHost.MatchString(host) {
			return p, false
		}
	}
	oneName := !strings.ContainsAny(p.hosts, ",:")
	return p, uriUser.MatchString(p.user) && uriRest.MatchString(p.rest) && (scheme == "mongodb" || scheme == "mongodb+srv" && oneName)
}
