package proxy

import (
	"fmt"
	"io"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/wiremessage"
)

// headerBytes is the length of a message's header. maxBytes is the maximum length of a message.
const (
	headerBytes = 16
	maxBytes    = 64 << 20
)

// Message is one message of the wire protocol, its header included.
type Message []byte

// Read reads a whole message.
func Read(from io.Reader) (Message, error) {
	m, length, err := ReadHeader(from)
	if err != nil {
		return nil, err
	}
	m = append(m, make([]byte, length-headerBytes)...)
	_, err = io.ReadFull(from, m[headerBytes:])
	return m, err
}

// ReadHeader reads the header of a message, and returns the length of the whole message.
func ReadHeader(from io.Reader) (header Message, length int, err error) {
	header = make(Message, headerBytes)
	if _, err := io.ReadFull(from, header); err != nil {
		return nil, 0, err
	}
	n, _, _, _, _, _ := wiremessage.ReadHeader(header)
	if n < headerBytes || n > maxBytes {
		return nil, 0, fmt.Errorf("reading a message of %d bytes", n)
	}
	return header, int(n), nil
}

// RequestID returns the number that the sender gave the message.
func (m Message) RequestID() int32 {
	_, id, _, _, _, _ := wiremessage.ReadHeader(m)
	return id
}

// ResponseTo returns the number of the message that this one answers.
func (m Message) ResponseTo() int32 {
	_, _, to, _, _, _ := wiremessage.ReadHeader(m)
	return to
}

// Command is a command or an answer, with the documents of its document sequence.
type Command struct {
	Body      bson.Raw
	Sequence  string // name of the field that Documents replaces. Empty means that there is no sequence.
	Documents []bson.Raw
	// Unanswered reports that the client expects no answer.
	Unanswered bool
}

// Name returns the name of the command.
func (c Command) Name() string {
	first, err := c.Body.IndexErr(0)
	if err != nil {
		return ""
	}
	return first.Key()
}

// Write returns the kind and the collection of an insert or update command.
func (c Command) Write() (kind, collection string, ok bool) {
	if kind = c.Name(); kind != "insert" && kind != "update" {
		return "", "", false
	}
	collection, ok = c.Body.Lookup(kind).StringValueOK()
	return kind, collection, ok
}

// ParseBucketWrite parses a message that inserts or updates buckets, and returns which of the two. It returns false for any other
// message.
func ParseBucketWrite(m Message) (c Command, kind string, ok bool) {
	if c, ok = Parse(m); !ok {
		return c, "", false
	}
	kind, collection, ok := c.Write()
	return c, kind, ok && strings.HasSuffix(collection, ".buckets")
}

// Parse parses a message. It returns false for a message of a form that this package does not support.
func Parse(m Message) (c Command, ok bool) {
	_, _, _, operation, rest, _ := wiremessage.ReadHeader(m)
	flags, rest, ok := wiremessage.ReadMsgFlags(rest)
	if !ok || operation != wiremessage.OpMsg || flags&wiremessage.ChecksumPresent != 0 {
		return Command{}, false
	}
	c.Unanswered = flags&wiremessage.MoreToCome != 0
	for len(rest) > 0 {
		var kind wiremessage.SectionType
		var document bsoncore.Document
		var documents []bsoncore.Document
		switch kind, rest, _ = wiremessage.ReadMsgSectionType(rest); {
		case kind == wiremessage.SingleDocument && c.Body == nil:
			document, rest, ok = wiremessage.ReadMsgSectionSingleDocument(rest)
			c.Body = bson.Raw(document)
		case kind == wiremessage.DocumentSequence && c.Sequence == "":
			c.Sequence, documents, rest, ok = wiremessage.ReadMsgSectionDocumentSequence(rest)
			for _, d := range documents {
				c.Documents = append(c.Documents, bson.Raw(d))
			}
		default:
			ok = false
		}
		if !ok {
			return Command{}, false
		}
	}
	return c.lift(), c.Body != nil
}

// lists are the fields with the writes of a command, by its name.
var lists = map[string]string{"insert": "documents", "update": "updates", "delete": "deletes"}

// lift moves the writes of a command from its body to Documents. A command may hold them in either place.
func (c Command) lift() Command {
	list := lists[c.Name()]
	array, ok := c.Body.Lookup(list).ArrayOK()
	if list == "" || !ok {
		return c
	}
	lifted := Command{Sequence: list, Unanswered: c.Unanswered}
	values, _ := array.Values()
	for _, v := range values {
		d, ok := v.DocumentOK()
		if !ok {
			return c
		}
		lifted.Documents = append(lifted.Documents, d)
	}
	elements, _ := c.Body.Elements()
	at, body := bsoncore.AppendDocumentStart(nil)
	for _, e := range elements {
		if e.Key() != list {
			body = append(body, e...)
		}
	}
	body, err := bsoncore.AppendDocumentEnd(body, at)
	if err != nil {
		return c
	}
	lifted.Body = body
	return lifted
}

// Build encodes the command as a message with the ids and flags of another message.
func (c Command) Build(ids Message) Message {
	_, request, to, _, rest, _ := wiremessage.ReadHeader(ids)
	flags, _, _ := wiremessage.ReadMsgFlags(rest)
	return c.build(request, to, flags)
}

func (c Command) build(request, to int32, flags wiremessage.MsgFlag) Message {
	m := wiremessage.AppendMsgFlags(wiremessage.AppendHeader(nil, 0, request, to, wiremessage.OpMsg), flags)
	m = append(wiremessage.AppendMsgSectionType(m, wiremessage.SingleDocument), c.Body...)
	if c.Sequence != "" {
		at, section := bsoncore.ReserveLength(wiremessage.AppendMsgSectionType(m, wiremessage.DocumentSequence))
		m = append(append(section, c.Sequence...), 0)
		for _, d := range c.Documents {
			m = append(m, d...)
		}
		m = bsoncore.UpdateLength(m, at, int32(len(m))-at)
	}
	return bsoncore.UpdateLength(m, 0, int32(len(m)))
}

// answer decides to answer a request with a document in place of the server.
func answer(to Message, with bson.D) Decision {
	body, err := bson.Marshal(with)
	if err != nil {
		panic(err) // the callers use values that can be encoded
	}
	return Decision{Reply: Command{Body: body}.build(0, to.RequestID(), 0)}
}
