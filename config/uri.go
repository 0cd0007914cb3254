package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"
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

// These are messages about a MONGODB_URI. A message must never quote the URI, because any part of one that cannot be parsed may
// belong to a password. The driver's own messages do quote it.
const (
	uriExample = "not a connection string: write mongodb://host:port/database or mongodb+srv://host/database"
	uriSpace   = "begins or ends with a space or a line end: remove it"
	uriEscapes = "cannot be parsed: write mongodb://user:password@host:port/database or mongodb+srv://user:password@host/database (without a port). " +
		"In user and password write %40 for @, %3A for :, %2F for /, %3F for ?, %23 for #, %5B and %5D for [ ], %25 for %"
)

// uri lets the driver check the connection string, without any DNS lookup.
func (k *checker) uri() {
	if !k.good("MONGODB_URI") {
		return
	}
	if refusal := k.MongoDB.URI.refusal(); refusal != "" {
		k.fail("MONGODB_URI", "", "%s", refusal)
		k.bad["MONGODB_URI"] = true // its database name is not checked either
	}
}

// refusal returns a message about a wrong URI. Empty means that the URI is right.
func (u URI) refusal() string {
	if strings.TrimSpace(string(u)) != string(u) {
		return uriSpace
	}
	scheme, after, _ := strings.Cut(string(u), "://")
	if scheme != "mongodb" && scheme != "mongodb+srv" || after == "" {
		return uriExample
	}
	p, ok := u.parts()
	if !ok {
		return uriEscapes
	}
	p = p.withoutDNS()
	_, err := connstring.ParseAndValidate(p.text())
	if err == nil {
		return ""
	}
	if refusal := p.refusedPart(); refusal != "" {
		return refusal
	}
	// Only combinations of options, or of an option and another part, can still be wrong. The driver's message is used only if it
	// quotes nothing.
	if text := err.Error(); !strings.Contains(text, `"`) && !strings.Contains(text, p.hosts) {
		return text
	}
	return "has options that contradict each other, or an option that needs another option or a user name"
}

// withoutDNS returns the parts of a URI with the same login and options that needs no DNS lookup.
func (p uriParts) withoutDNS() uriParts {
	path, query, ok := strings.Cut(p.rest, "?")
	if p.scheme != "mongodb+srv" || !ok {
		p.scheme = "mongodb"
		return p
	}
	options := slices.DeleteFunc(strings.Split(query, "&"), func(option string) bool {
		return len(option) > 3 && strings.EqualFold(option[:3], "srv")
	})
	p.scheme, p.rest = "mongodb", path+"?"+strings.Join(options, "&")
	return p
}

// text returns the URI made of the parts.
func (p uriParts) text() string {
	if p.user != "" {
		return p.scheme + "://" + p.user + "@" + p.hosts + p.rest
	}
	return p.scheme + "://" + p.hosts + p.rest
}

// refusedPart finds the port or the option that the driver rejects by itself. Empty means that there is none.
func (p uriParts) refusedPart() string {
	for i, host := range strings.Split(p.hosts, ",") {
		if _, port, err := net.SplitHostPort(host); err == nil && !isPort(port, 1) {
			return fmt.Sprintf("has a port outside of 1 to 65535, in address %d", i+1)
		}
	}
	_, query, _ := strings.Cut(p.rest, "?")
	for i, option := range strings.Split(query, "&") {
		if _, err := connstring.Parse("mongodb://host/?" + option); err != nil && query != "" {
			return "has a value that MongoDB's driver does not accept, in the option " + optionName(i, option)
		}
	}
	return ""
}

// optionName returns an option's name if the driver knows it. Otherwise it returns the option's position.
func optionName(index int, option string) string {
	name, _, _ := strings.Cut(option, "=")
	if i := slices.IndexFunc(uriOptions, func(known string) bool { return strings.EqualFold(known, name) }); i >= 0 {
		return uriOptions[i]
	}
	return fmt.Sprintf("number %d after the question mark", index+1)
}

// uriOptions are the options for which the driver accepts only certain values.
var uriOptions = []string{
	"authMechanism", "authMechanismProperties", "authSource", "compressors", "connect", "connectTimeoutMS", "directConnection",
	"heartbeatFrequencyMS", "journal", "loadBalanced", "localThresholdMS", "maxConnecting", "maxIdleTimeMS", "maxPoolSize",
	"maxStalenessSeconds", "minPoolSize", "readConcernLevel", "readPreference", "readPreferenceTags", "replicaSet",
	"retryReads", "retryWrites", "serverMonitoringMode", "serverSelectionTimeoutMS", "socketTimeoutMS", "srvMaxHosts",
	"srvServiceName", "ssl", "sslInsecure", "timeoutMS", "tls", "tlsAllowInvalidCertificates", "tlsAllowInvalidHostnames",
	"tlsCAFile", "tlsCertificateFile", "tlsCertificateKeyFile", "tlsDisableCertificateRevocationCheck",
	"tlsDisableOCSPEndpointCheck", "tlsInsecure", "tlsPrivateKeyFile", "w", "wTimeoutMS", "zlibCompressionLevel", "zstdCompressionLevel",
}
