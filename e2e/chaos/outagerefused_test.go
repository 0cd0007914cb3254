package chaos

import (
	"testing"

	"waterwheel/e2e/harness/proxy"
)

func TestDatabaseHasNoPrimary(t *testing.T) {
	testRefusal(t, proxy.NoPrimary())
}

func TestDatabaseHasNoRoomOnItsDisk(t *testing.T) {
	testRefusal(t, proxy.FullDisk())
}

func TestDatabaseThrottles(t *testing.T) {
	testRefusal(t, proxy.Throttled())
}

func TestDatabaseTakesThePrivilegeAway(t *testing.T) {
	testRefusal(t, proxy.Unauthorized())
}

// testRefusal makes MongoDB answer reads normally, and writes of buckets with this refusal.
func testRefusal(t *testing.T, with proxy.Refusal) {
	testOutage(t, outage{answer: &with, reason: "MongoDB", recovery: soon, steady: true})
}

// answering puts a proxy with this answer in front of the database, and returns its address.
func (o *outage) answering(t *testing.T) string {
	t.Helper()
	refuser, err := proxy.NewRefuser(world.mongoURI)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(refuser.Close)
	o.begin = func(*testing.T, *run) { refuser.Obey(proxy.AllBuckets(*o.answer)) }
	o.end = func(*testing.T, *run) { refuser.Obey(nil) }
	return refuser.URI()
}
