package harness

import (
	"net/url"
	"strings"
	"testing"

	"waterwheel/e2e/harness/link"
)

// LinkMongo puts a network that can be cut between consumers and MongoDB, for one test, and returns the URI through it.
func (s *Servers) LinkMongo(t *testing.T) (*link.Link, string) {
	t.Helper()
	uri, err := url.Parse(s.MongoURI)
	if err != nil {
		t.Skip("E2E_MONGODB_URI names several servers: one cannot be put behind a link")
	}
	l := newLink(t, uri.Host)
	query := uri.Query()
	query.Del("replicaSet") // whose members would be found by their own addresses
	query.Set("directConnection", "true")
	uri.Host, uri.RawQuery = l.Address(), query.Encode()
	if uri.Path == "" {
		uri.Path = "/"
	}
	return l, uri.String()
}

// LinkKafka puts a network that can be cut between consumers and the first broker, for one test: at the link's address clients learn
// the brokers' own.
func (s *Servers) LinkKafka(t *testing.T) *link.Link {
	t.Helper()
	first, _, _ := strings.Cut(s.Brokers, ",")
	return newLink(t, first)
}

func newLink(t *testing.T, target string) *link.Link {
	t.Helper()
	address, err := NewLinkAddress()
	if err != nil {
		t.Fatal(err)
	}
	l, err := link.New(address, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}
