package chaos

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/harness/refuser"
)

func TestDatabaseHasNoPrimary(t *testing.T) {
	testRefusal(t, refuser.Refusal{Code: 10107, Message: "not primary", Whole: true})
}

func TestDatabaseHasNoRoomOnItsDisk(t *testing.T) {
	testRefusal(t, refuser.Refusal{Code: 14031, Message: "No space left on device"})
}

func TestDatabaseThrottles(t *testing.T) {
	testRefusal(t, refuser.Refusal{Code: 16500, Message: "Request rate is large"})
}

func TestDatabaseTakesThePrivilegeAway(t *testing.T) {
	testRefusal(t, refuser.Refusal{Code: 13, Message: "not authorized to execute the command", Whole: true})
}

// testRefusal lets MongoDB be read, and answer writes of buckets so.
func testRefusal(t *testing.T, with refuser.Refusal) {
	testOutage(t, outage{answer: &with, reason: "MongoDB", recovery: soon, steady: true})
}

// answering puts a proxy that gives the answer before the database, and returns its address.
func (o *outage) answering(t *testing.T) string {
	t.Helper()
	proxy, err := refuser.New(world.mongoURI)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	o.begin = func(*testing.T, *run) {
		proxy.Obey(func(collection string, _ bson.Raw) *refuser.Refusal {
			if !strings.HasSuffix(collection, ".buckets") {
				return nil
			}
			return o.answer
		})
	}
	o.end = func(*testing.T, *run) { proxy.Obey(nil) }
	return proxy.URI()
}
