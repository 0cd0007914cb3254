package config

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"
)

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

// refusal returns what is wrong with the URI. Empty means nothing.
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
