package main

import (
	"context"
	"crypto/rand"
	"maps"
	"net"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// roles returns the roles in docs/runbook.md by name, for the time series of the stage.
func (s *stage) roles() map[string]bson.D {
	s.t.Helper()
	all := map[string]bson.D{}
	text := strings.NewReplacer("telemetry", s.topic, "measurements", s.topic).Replace(runbookSection(s.t, "Rights"))
	for _, found := range regexp.MustCompile(`(?s)db\.createRole\((\{.*?\] \})\)`).FindAllStringSubmatch(text, -1) {
		var role bson.D
		if err := bson.UnmarshalExtJSON([]byte(found[1]), false, &role); err != nil {
			s.t.Fatalf("%v, in %s", err, found[1])
		}
		all[role[0].Value.(string)] = append(bson.D{{Key: "createRole", Value: role[0].Value}}, role[1:]...)
	}
	return all
}

// as returns the settings of a user with a role. It skips the test where no user can be made.
func (s *stage) as(role bson.D) map[string]string {
	s.t.Helper()
	admin, err := url.Parse(s.env["MONGODB_URI"])
	if err != nil || admin.User == nil {
		s.t.Skip("E2E_MONGODB_URI names no user: no rights to test with")
	}
	db, name, password := s.buckets.Database(), role[0].Value.(string), rand.Text()
	user := bson.D{{Key: "createUser", Value: name}, {Key: "pwd", Value: password}, {Key: "roles", Value: bson.A{name}}}
	for _, command := range []bson.D{role, user} {
		if err := db.RunCommand(s.t.Context(), command).Err(); err != nil {
			s.t.Skipf("the user of E2E_MONGODB_URI may not make users and roles: %v", err)
		}
	}
	s.t.Cleanup(func() {
		for _, command := range []string{"dropUser", "dropRole"} {
			_ = db.RunCommand(context.Background(), bson.D{{Key: command, Value: name}}).Err()
		}
	})
	query := admin.Query()
	query.Set("authSource", db.Name())
	query.Del("authMechanism")
	admin.User, admin.RawQuery = url.UserPassword(name, password), query.Encode()
	env := maps.Clone(s.env)
	env["MONGODB_URI"] = admin.String()
	return env
}

// TestRolesOfTheRunbookAreEnoughOnAServer checks each role with the commands that it is for.
func TestRolesOfTheRunbookAreEnoughOnAServer(t *testing.T) {
	s := newStage(t)
	roles := s.roles()
	if len(roles) != 3 {
		t.Fatalf("docs/runbook.md has the roles %v", roles)
	}
	users := map[string]map[string]string{}
	for name, role := range roles {
		users[name] = s.as(role)
	}
	expect := func(role string, args ...string) {
		t.Helper()
		code, stdout, stderr := try(t, users[role], args...)
		lacks := strings.Count(stdout+stderr, "lacks the right")
		if args[0] == "check" {
			lacks -= strings.Count(stdout, "lacks the right collStats") // it works without this right
		}
		if code != exitDone || lacks > 0 {
			t.Errorf("%s as %s: exit code %d\n%s%s", args[0], role, code, stdout, stderr)
		}
	}
	expect("waterwheelRun", "check")
	expect("waterwheelRun", "init")
	expect("waterwheelRun", "check")
	s.env = users["waterwheelRun"]
	stop := s.consume()
	s.produce(400)
	s.verified()
	stop()
	expect("waterwheelRun", "check")
	expect("waterwheelVerify", "verify", "--content")
	expect("waterwheelQuery", "query", s.topic, "--format", "csv")
	expect("waterwheelQuery", "query", s.topic, "--latest")
}

// TestCompactionGoesOnWithoutTheRightToDeleteOnAServer checks that segments end and are not deleted, that others are compacted,
// and that a stop releases the partitions.
func TestCompactionGoesOnWithoutTheRightToDeleteOnAServer(t *testing.T) {
	s := newStage(t)
	role := s.roles()["waterwheelRun"]
	for _, privilege := range role[2].Value.(bson.A) {
		actions := &privilege.(bson.D)[1]
		var rest bson.A
		for _, action := range actions.Value.(bson.A) {
			if action != "remove" {
				rest = append(rest, action)
			}
		}
		actions.Value = rest
	}
	env := s.as(role)
	code, out, _ := try(t, env, "check")
	if code != exitFound || !strings.Contains(out, "lacks the right remove on "+s.topic+"."+s.topic+".buckets") {
		t.Errorf("check: exit code %d\n%s", code, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close() // so that the consumer can use the port
	maps.Copy(env, map[string]string{"HTTP_ADDR": addr, "COMPACT_INTERVAL": "1s", "COMPACT_VISIBILITY_DELAY": "2s", "SEGMENT_RETENTION": "1s", "KAFKA_LEASE": "4s"})
	s.env = env
	stop := s.consume()
	sum := func(metric, label string) float64 { return sumOf(metricsOf(t, addr), "waterwheel_"+metric, label) }
	awaitMetric := func(metric, label string, least float64) {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); sum(metric, label) < least; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s{%s} is %v after a minute, want %v", metric, label, sum(metric, label), least)
			}
		}
	}
	const finished = `outcome="finished"`
	s.produce(100)
	awaitMetric("retries_total", `operation="compacting segments"`, 1)
	before := sum("compactions_total", finished)
	s.produce(100)
	awaitMetric("compactions_total", finished, before+1)
	s.verified()
	stop()
	released, err := s.buckets.Database().Collection(s.topic+".partitions").CountDocuments(t.Context(), bson.D{{Key: "released", Value: true}})
	if err != nil || released != 2 {
		t.Errorf("%d of 2 partitions are released, %v", released, err)
	}
}
