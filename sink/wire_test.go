package sink_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// fake is a server of the wire protocol that answers by script, for what no server at hand does: a replica set's
// sessions, elections, refused logins, lost answers.
type fake struct {
	net.Listener
	mu       sync.Mutex
	answers  map[string]func(command bson.Raw) bson.D // by command; nil answer: the connection is cut
	commands []bson.Raw                               // all but greetings and pings, in order
	conns    []net.Conn
	serving  sync.WaitGroup
}

// replicaSet are the fields of hello of a primary with sessions.
var replicaSet = bson.D{
	{Key: "setName", Value: "rs"}, {Key: "logicalSessionTimeoutMinutes", Value: int32(30)},
}

// newFake starts a server whose hello has these fields beside those that every server has.
func newFake(t *testing.T, hello bson.D) *fake {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{Listener: listener, answers: make(map[string]func(bson.Raw) bson.D)}
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
		f.answers[name] = func(bson.Raw) bson.D { return greeting }
	}
	f.answers["listIndexes"] = emptyCursor
	f.answers["endSessions"] = func(bson.Raw) bson.D { return nil }
	f.serving.Go(f.accept)
	t.Cleanup(func() {
		f.Close()
		f.mu.Lock()
		for _, c := range f.conns {
			c.Close()
		}
		f.mu.Unlock()
		f.serving.Wait()
	})
	return f
}

func (f *fake) accept() {
	for {
		conn, err := f.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conns = append(f.conns, conn)
		f.mu.Unlock()
		f.serving.Go(func() { f.serve(conn) })
	}
}

// answer sets what a command is answered; ok: 1 is added unless it has an ok.
func (f *fake) answer(command string, with func(command bson.Raw) bson.D) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[command] = with
}

// sent are the commands of this name so far.
func (f *fake) sent(name string) []bson.Raw {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []bson.Raw
	for _, c := range f.commands {
		if nameOf(c) == name {
			all = append(all, c)
		}
	}
	return all
}

func nameOf(command bson.Raw) string {
	first, err := command.IndexErr(0)
	if err != nil {
		return ""
	}
	return first.Key()
}

func (f *fake) serve(conn net.Conn) {
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

// commandIn reads the command of a message; documents sent beside it are put into the command.
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
	end := 0
	for sequence[end] != 0 {
		end++
	}
	documents := bson.A{}
	for rest := sequence[end+1:]; len(rest) > 0; {
		n := binary.LittleEndian.Uint32(rest)
		documents = append(documents, bson.Raw(rest[:n]))
		rest = rest[n:]
	}
	var fields bson.D
	elements, err := command.Elements()
	if err != nil {
		panic(err)
	}
	for _, e := range elements {
		fields = append(fields, bson.E{Key: e.Key(), Value: e.Value()})
	}
	return marshal(append(fields, bson.E{Key: string(sequence[:end]), Value: documents}))
}

// reply is the answer to a command; nil to cut the connection.
func (f *fake) reply(command bson.Raw) bson.Raw {
	name := nameOf(command)
	f.mu.Lock()
	with := f.answers[name]
	if name != "hello" && name != "isMaster" && name != "ismaster" {
		f.commands = append(f.commands, command)
	}
	f.mu.Unlock()
	if with == nil {
		return marshal(bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: int32(59)}, {Key: "errmsg", Value: "no such command: " + name}})
	}
	answer := with(command)
	if answer == nil {
		return nil
	}
	for _, e := range answer {
		if e.Key == "ok" {
			return marshal(answer)
		}
	}
	return marshal(append(answer[:len(answer):len(answer)], bson.E{Key: "ok", Value: 1},
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

// emptyCursor answers a query that finds nothing.
func emptyCursor(bson.Raw) bson.D { return cursorOf() }

// cursorOf answers a query.
func cursorOf(documents ...any) bson.D {
	return bson.D{{Key: "cursor", Value: bson.D{
		{Key: "id", Value: int64(0)}, {Key: "ns", Value: "db.c"}, {Key: "firstBatch", Value: append(bson.A{}, documents...)},
	}}}
}

// failing answers with an error.
func failing(code int32, message string) func(bson.Raw) bson.D {
	return func(bson.Raw) bson.D {
		return bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: code}, {Key: "errmsg", Value: message}}
	}
}

// counting answers a write of one document or update.
func counting(n int) func(bson.Raw) bson.D {
	return func(bson.Raw) bson.D { return bson.D{{Key: "n", Value: int32(n)}, {Key: "nModified", Value: int32(n)}} }
}
