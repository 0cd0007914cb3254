package harness

import (
	"net/url"
	"testing"

	"waterwheel/e2e/harness/link"
)

// LinkMongo puts a link that can be cut between the consumers of one test and MongoDB. It returns the link and the URI through
// it.
func (s *Servers) LinkMongo(t *testing.T) (*link.Link, string) {
	t.Helper()
	uri, err := url.Parse(s.MongoURI)
	if err != nil {
		t.Skip("E2E_MONGODB_URI names several servers: one cannot be put behind a link")
	}
	address, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	l, err := link.New(address, uri.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	query := uri.Query()
	query.Del("replicaSet") // with it the driver would connect to the members' own addresses
	query.Set("directConnection", "true")
	uri.Host, uri.RawQuery = address, query.Encode()
	if uri.Path == "" {
		uri.Path = "/"
	}
	return l, uri.String()
}
