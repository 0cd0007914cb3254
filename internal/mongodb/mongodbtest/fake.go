// Package mongodbtest helps to test packages that use MongoDB. fake.go has a server of the wire protocol that answers by script.
// real.go makes a test database on a real server.
package mongodbtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
)

// Fake is a server of the wire protocol that answers by script. It does what no available server does on demand: a replica set's
// sessions, elections, refused logins, lost answers.
type Fake struct {
	net.Listener
	Mu       sync.Mutex
	Answers  map[string]func(command bson.Raw) bson.D // by command. A nil answer cuts the connection.
	Commands []bson.Raw                               // all but greetings, in order
	conns    []net.Conn
	serving  sync.WaitGroup
}

// ReplicaSet holds the hello fields of a primary with sessions.
var ReplicaSet = bson.D{
	{Key: "setName", Value: "rs"}, {Key: "logicalSessionTimeoutMinutes", Value: int32(30)},
}

// Router holds the hello fields of a router of a sharded cluster.
var Router = bson.D{{Key: "msg", Value: "isdbgrid"}, {Key: "logicalSessionTimeoutMinutes", Value: int32(30)}}

// NewFake starts a server whose hello has these fields in addition to the common ones.
func NewFake(t *testing.T, hello bson.D) *Fake {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Fake{Listener: listener, Answers: make(map[string]func(bson.Raw) bson.D)}
	greeting := append(bson.D{
		{Key: "isWritablePrimary", Value: true},
		{Key: "ismaster", Value: true},
		{Key: "helloOk", Value: true},
		{Key: "maxBsonObjectSize", Value: int32(16 << 20)},
		{Key: "maxMessageSizeBytes", Value: int32(48 << 20)},
		{Key: "maxWriteBatchSize", Value: int32(100000)},
		{Key: "minWireVersion", Value: int32(0)},
		{Key: "maxWireVersion", Value: int32(17)},
		{Key: "hosts", Value: bson.A{listener.Addr().String()}},
		{Key: "me", Value: listener.Addr().String()},
		{Key: "primary", Value: listener.Addr().String()},
		{Key: "compression", Value: bson.A{"zstd", "snappy", "zlib"}},
	}, hello...)
	for _, name := range []string{"hello", "isMaster", "ismaster"} {
		f.Answers[name] = func(bson.Raw) bson.D { return greeting }
	}
	f.Answers["listIndexes"] = EmptyCursor
	f.Answers["endSessions"] = func(bson.Raw) bson.D { return nil }
	f.serving.Go(f.accept)
	t.Cleanup(func() {
		f.Close()
		f.Mu.Lock()
		for _, c := range f.conns {
			c.Close()
		}
		f.Mu.Unlock()
		f.serving.Wait()
	})
	return f
}

func (f *Fake) accept() {
	for {
		conn, err := f.Accept()
		if err != nil {
			return
		}
		f.Mu.Lock()
		f.conns = append(f.conns, conn)
		f.Mu.Unlock()
		f.serving.Go(func() { f.serve(conn) })
	}
}

// Answer sets the answer to a command. The server adds ok: 1 unless the answer has an ok.
func (f *Fake) Answer(command string, with func(command bson.Raw) bson.D) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Answers[command] = with
}

// Sent returns the commands of this name so far.
func (f *Fake) Sent(name string) []bson.Raw {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	var all []bson.Raw
	for _, c := range f.Commands {
		if NameOf(c) == name {
			all = append(all, c)
		}
	}
	return all
}

// Last returns the last command of this name.
func (f *Fake) Last(name string) bson.Raw {
	all := f.Sent(name)
	return all[len(all)-1]
}

// NameOf returns the name of a command.
func NameOf(command bson.Raw) string {
	first, err := command.IndexErr(0)
	if err != nil {
		return ""
	}
	return first.Key()
}

func (f *Fake) serve(conn net.Conn) {
	defer conn.Close()
	header := make([]byte, 16)
	for {
		if _, err := io.ReadFull(conn, header); err != nil {
			return
		}
		rest := make([]byte, binary.LittleEndian.Uint32(header)-16)
		if _, err := io.ReadFull(conn, rest); err != nil {
			return
		}
		query := binary.LittleEndian.Uint32(header[12:]) == 2004
		command := commandIn(rest, query)
		reply := f.reply(command)
		if reply == nil {
			return
		}
		if _, err := conn.Write(encodeReply(header[4:8], reply, query)); err != nil {
			return
		}
	}
}

// commandIn reads the command of a message. It puts documents that were sent beside the command into it.
func commandIn(body []byte, query bool) bson.Raw {
	if query { // flags, "admin.$cmd", skip, limit
		return body[4+11+8:]
	}
	sections := body[4:]
	command := bson.Raw(sections[1 : 1+binary.LittleEndian.Uint32(sections[1:])])
	sections = sections[1+len(command):]
	if len(sections) == 0 || sections[0] != 1 {
		return command
	}
	sequence := sections[5 : 1+binary.LittleEndian.Uint32(sections[1:])]
	name, rest, _ := bytes.Cut(sequence, []byte{0})
	documents := bson.A{}
	for len(rest) > 0 {
		n := binary.LittleEndian.Uint32(rest)
		documents = append(documents, bson.Raw(rest[:n]))
		rest = rest[n:]
	}
	var fields bson.D
	if err := bson.Unmarshal(command, &fields); err != nil {
		panic(err)
	}
	return mongodb.Document(append(fields, bson.E{Key: string(name), Value: documents}))
}

// reply returns the answer to a command. Nil cuts the connection.
func (f *Fake) reply(command bson.Raw) bson.Raw {
	name := NameOf(command)
	f.Mu.Lock()
	with := f.Answers[name]
	if name != "hello" && name != "isMaster" && name != "ismaster" {
		f.Commands = append(f.Commands, command)
	}
	f.Mu.Unlock()
	if with == nil {
		return mongodb.Document(bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: int32(59)}, {Key: "errmsg", Value: "no such command: " + name}})
	}
	answer := with(command)
	if answer == nil {
		return nil
	}
	for _, e := range answer {
		if e.Key == "ok" {
			return mongodb.Document(answer)
		}
	}
	return mongodb.Document(append(answer[:len(answer):len(answer)], bson.E{Key: "ok", Value: 1},
		bson.E{Key: "operationTime", Value: bson.Timestamp{T: 1000, I: 7}}))
}

func encodeReply(to []byte, document bson.Raw, query bool) []byte {
	m := make([]byte, 16)
	copy(m[8:], to)
	if query {
		binary.LittleEndian.PutUint32(m[12:], 1)
		m = append(m, make([]byte, 4+8+4)...)
		m = binary.LittleEndian.AppendUint32(m, 1)
	} else {
		binary.LittleEndian.PutUint32(m[12:], 2013)
		m = append(m, 0, 0, 0, 0, 0)
	}
	m = append(m, document...)
	binary.LittleEndian.PutUint32(m, uint32(len(m)))
	return m
}

// EmptyCursor answers a query that finds nothing.
func EmptyCursor(bson.Raw) bson.D { return CursorOf() }

// CursorOf answers a query with documents.
func CursorOf(documents ...any) bson.D {
	return bson.D{{Key: "cursor", Value: bson.D{
		{Key: "id", Value: int64(0)}, {Key: "ns", Value: "db.c"}, {Key: "firstBatch", Value: append(bson.A{}, documents...)},
	}}}
}

// Failing answers with an error.
func Failing(code int32, message string) func(bson.Raw) bson.D {
	return func(bson.Raw) bson.D {
		return bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: code}, {Key: "errmsg", Value: message}}
	}
}

// Counting answers a write of one document or update.
func Counting(n int) func(bson.Raw) bson.D {
	return func(bson.Raw) bson.D { return bson.D{{Key: "n", Value: int32(n)}, {Key: "nModified", Value: int32(n)}} }
}

// Open opens a database on a scripted server.
func Open(t *testing.T, f *Fake, change ...func(*mongodb.Options)) *mongodb.Database {
	t.Helper()
	o := mongodb.Options{
		URI: "mongodb://" + f.Addr().String() + "/db?directConnection=true", Database: "db", WriteTimeout: time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&o)
	}
	d, err := mongodb.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(t.Context()) })
	return d
}

// Hurried is a context whose deadline can be moved while it is in use.
type Hurried struct {
	context.Context
	until atomic.Pointer[time.Time]
}

// NewHurried makes a context that has so much time left.
func NewHurried(parent context.Context, left time.Duration) *Hurried {
	h := &Hurried{Context: parent}
	h.Set(left)
	return h
}

// Set leaves so much time from now on.
func (h *Hurried) Set(left time.Duration) {
	until := time.Now().Add(left)
	h.until.Store(&until)
}

// Deadline implements context.Context.
func (h *Hurried) Deadline() (time.Time, bool) { return *h.until.Load(), true }
