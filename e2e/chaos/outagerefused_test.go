package chaos

import (
	"testing"

	"waterwheel/e2e/harness/refuser"
)

func TestDatabaseHasNoPrimary(t *testing.T) {
	testRefusal(t, refuser.NoPrimary())
}

func TestDatabaseHasNoRoomOnItsDisk(t *testing.T) {
	testRefusal(t, refuser.FullDisk())
}

func TestDatabaseThrottles(t *testing.T) {
	testRefusal(t, refuser.Throttled())
}

func TestDatabaseTakesThePrivilegeAway(t *testing.T) {
	testRefusal(t, refuser.Unauthorized())
}

// testRefusal makes MongoDB answer reads normally, and writes of buckets with this refusal.
func testRefusal(t *testing.T, with refuser.Refusal) {
	testOutage(t, outage{answer: &with, reason: "MongoDB", recovery: soon, steady: true})
}

// answering puts a proxy with this answer in front of the database, and returns its address.
func (o *outage) answering(t *testing.T) string {
	t.Helper()
	proxy, err := refuser.New(world.mongoURI)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	o.begin = func(*testing.T, *run) { proxy.Obey(refuser.AllBuckets(*o.answer)) }
	o.end = func(*testing.T, *run) { proxy.Obey(nil) }
	return proxy.URI()
}
