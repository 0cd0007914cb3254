package discard

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestThroughKeepsWhatIsNotTheAddress(t *testing.T) {
	for uri, want := range map[string]string{
		"mongodb://a:1":                                                  "mongodb://p:9/?directConnection=true",
		"mongodb://a:1/?maxPoolSize=1":                                   "mongodb://p:9/?directConnection=true&maxPoolSize=1",
		"mongodb://u:p%40x@a:1,b:2/db?w=1":                               "mongodb://u:p%40x@p:9/db?directConnection=true&w=1",
		"mongodb://a:1/?replicaset=rs&w=1":                               "mongodb://p:9/?directConnection=true&w=1",
		"mongodb://a:1/?compressors=zstd;w=1":                            "mongodb://p:9/?directConnection=true&w=1",
		"mongodb://a:1/db?directConnection=false&zlibCompressionLevel=3": "mongodb://p:9/db?directConnection=true",
	} {
		got := through(uri, "p:9")
		if got != want {
			t.Errorf("through %s: %s, not %s", uri, got, want)
		}
		if err := options.Client().ApplyURI(got).Validate(); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
}

func TestPrimaryRefusesWhatItCannotStandBefore(t *testing.T) {
	for _, uri := range []string{"mongodb+srv://a.example", "mongodb://a:1/?tls=true", "localhost:27017"} {
		if address, err := primary(t.Context(), uri); err == nil {
			t.Errorf("%s: %s, not an error", uri, address)
		}
	}
}
