package config

import (
	"fmt"
	"strings"
	"testing"
)

// marked is the password, which must never be shown.
const marked = "hIdDeN"

// printed returns everything that the loading of settings prints: problems, or the settings in effect.
func printed(env map[string]string) string {
	c, err := load(env)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, s := range c.Settings() {
		fmt.Fprintf(&b, "%s=%s\n", s.Name, s.Value)
	}
	return b.String() + fmt.Sprintf("%v %+v %#v", c, c, c)
}

// TestNoPartOfAPasswordIsShown checks this for any missing or unescaped part of a URI.
func TestNoPartOfAPasswordIsShown(t *testing.T) {
	for _, uri := range []string{
		"mongodb://user:hIdDeN@host/db", "mongodb+srv://user:hIdDeN@host.example/db",
		"mongodb://user:hIdDeN/hIdDeN@host/db", "mongodb://user:12/hIdDeN@host/db", "mongodb+srv://user:pa/hIdDeN@host.example/db",
		"mongodb://user:hIdDeN", "mongodb://user:hIdDeN/", "mongodb://user:hIdDeNhost:27017/db", "mongodb+srv://user:hIdDeN.host.example/db",
		"mongodb://user:hId?DeN=hIdDeN@host/db", "mongodb://user:12?w=hIdDeN@host", "mongodb://user:12?hIdDeN@host", "mongodb://user:hIdDeN#x@host",
		"mongodb://user:hIdDeN@hIdDeN@host/db", "mongodb://user:hIdDeN:hIdDeN@host/db", "mongodb://user:hIdDeN%zz@host/db", "mongodb://user:hIdDeN%@host",
		"mongodb://user:hIdDeN@", "mongodb://user:hIdDeN@/db", "mongodb://user:hIdDeN@host:port/db", "mongodb://user:hIdDeN@host:99999/db",
		"mongodb://user:hIdDeN@host/a b", "mongodb://user:hIdDeN@host/db?w=-3", "mongodb://user:hIdDeN@host/admin",
		"mongodb://user:hIdDeN@host/?tls=hIdDeN", "mongodb://user:pa@host/?hIdDeN=hIdDeN&x", "mongodb://user:pa@host/?hIdDeN",
		"mongodb://user:pa@host/?authMechanism=MONGODB-X509&authSource=hIdDeN", "mongodb://user:pa@host/?connect=direct&directConnection=false",
		"mongodb://u:p@host/?tlsCertificateKeyFilePassword=hIdDeN&tlsCertificateKeyFile=x", "mongodb://u:p@host/?authMechanismProperties=TOKEN:hIdDeN",
		"http://user:hIdDeN@host", "user:hIdDeN@host/db", "mongodb:user:hIdDeN@host", "hIdDeN", "mongodb:///hIdDeN@host/db", " mongodb://u:hIdDeN@host",
		"mongodb://u:p@host,hIdDeN,@host/db", "mongodb://[hIdDeN]/db", "mongodb://user:[hIdDeN]@host/db",
	} {
		if got := printed(with("MONGODB_URI", uri)); strings.Contains(got, marked) {
			t.Errorf("%s is shown:\n%s", uri, got)
		}
		if p, ok := URI(uri).parts(); ok && strings.Contains(p.rest, marked) {
			continue // the part after the hosts of a valid URI is shown, except some options
		}
		if got := fmt.Sprintf("%v %+v %#v", URI(uri), URI(uri), URI(uri)); strings.Contains(got, marked) {
			t.Errorf("%s is printed as %s", uri, got)
		}
	}
	for _, brokers := range []string{
		"user:hIdDeN@kafka:9092", "kafka:9092,user:hIdDeN@kafka:9092", "sasl://user:hIdDeN@kafka:9092", "user:hIdDeN/x@kafka:9092", "hIdDeN@kafka:9092",
		"user:pa,hIdDeN,ss@kafka:9092", "user:hIdDeN@kafka:9092,", "user:hIdDeN", "user:hIdDeNkafka:9092", "kafka://hIdDeN:9092",
	} {
		if got := printed(with("KAFKA_BROKERS", brokers)); strings.Contains(got, marked) || !strings.Contains(got, "KAFKA_BROKERS") {
			t.Errorf("%s is shown:\n%s", brokers, got)
		}
	}
}

// TestValuesInTheWrongVariableAreNotShown checks a value in place of the name of its file, and a URI in place of a name.
func TestValuesInTheWrongVariableAreNotShown(t *testing.T) {
	for _, variable := range []string{
		"MONGODB_URI_FILE", "KAFKA_BROKERS_FILE", "KAFKA_SASL_PASSWORD_FILE", "MONGODB_DATABASE", "DLQ_TOPIC", "KAFKA_SKIP_CORRUPT", "KAFKA_TOPICS",
	} {
		env := with("KAFKA_SECURITY", "sasl_tls", "KAFKA_SASL_MECHANISM", "PLAIN", "KAFKA_SASL_USERNAME", "user", variable, "mongodb://user:hIdDeN@host/db")
		setting, _ := strings.CutSuffix(variable, fileSuffix)
		if delete(env, setting); setting == variable {
			env[variable] = "mongodb://user:hIdDeN@host/db"
		}
		if got := printed(env); strings.Contains(got, marked) || !strings.Contains(got, variable) {
			t.Errorf("%s: %s", variable, got)
		}
	}
	env := with("KAFKA_SECURITY", "sasl_tls", "KAFKA_SASL_MECHANISM", "PLAIN", "KAFKA_SASL_USERNAME", "user", "KAFKA_SASL_PASSWORD_FILE", marked)
	if got := printed(env); strings.Contains(got, marked) || !strings.Contains(got, "no such file") {
		t.Error(got)
	}
}

func TestGoodURIsAreShownWithoutTheirPasswords(t *testing.T) {
	for uri, want := range map[string]string{
		"mongodb://host":                                             "",
		"mongodb://a:1,b:2/db?replicaSet=rs":                         "",
		"mongodb://[::1]:27017,[fe80::1%25eth0]/db":                  "",
		"mongodb://%2Ftmp%2Fmongodb-27017.sock/db":                   "",
		"mongodb://user@host/?authMechanism=MONGODB-X509":            "",
		"mongodb://us%40er:p%2Fa%3Ass@host/db":                       "mongodb://us%40er:***@host/db",
		"mongodb+srv://user@host.example":                            "",
		"mongodb+srv://host.example/?srvMaxHosts=2":                  "",
		"mongodb+srv://host.example/?srvServiceName=x&tls=false":     "",
		"mongodb://u:p@h/db?appName=me%40here&w=majority":            "mongodb://u:***@h/db?appName=me%40here&w=majority",
		"mongodb+srv://u:p!$&'()*+,;=@cluster.example.net/?tls=true": "mongodb+srv://u:***@cluster.example.net/?tls=true",
	} {
		if want == "" {
			want = uri
		}
		if got := URI(uri).String(); got != want {
			t.Errorf("%s is shown as %s, want %s", uri, got, want)
		}
		if refusal := URI(uri).refusal(); refusal != "" {
			t.Errorf("%s: %s", uri, refusal)
		}
	}
}

func FuzzURI(f *testing.F) {
	f.Add("mongodb://user:", "@host/db?authMechanismProperties=AWS_SESSION_TOKEN:x")
	f.Add("mongodb+srv://:", "@@/?")
	f.Add("mongodb://user:1", "/x@host/?w=1")
	f.Fuzz(func(t *testing.T, before, after string) {
		uri := before + ":" + marked + after
		if got := printed(with("MONGODB_URI", uri)); strings.Contains(got, marked) {
			if p, ok := URI(uri).parts(); ok && !strings.Contains(p.user, marked) {
				t.Skip() // after the @, so it is not a password
			}
			t.Errorf("%q is shown:\n%s", uri, got)
		}
	})
}

func TestURIDatabase(t *testing.T) {
	for uri, want := range map[URI]string{
		"mongodb://h": "", "mongodb://h/": "", "mongodb://h/db": "db", "mongodb://u:p@h:1,i:2/db?x=/y": "db",
		"mongodb+srv://h/a%2Db": "a-b", "mongodb://%2Ftmp%2Fs.sock/db": "db", "mongodb://h/?appName=x": "", "nonsense": "",
	} {
		if got := uri.Database(); got != want {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
	if c, err := load(with("MONGODB_URI", "mongodb://h")); err != nil || c.MongoDB.Database != "waterwheel" {
		t.Errorf("without a database: %q, %v", c.MongoDB.Database, err)
	}
}
