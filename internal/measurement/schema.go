package measurement

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Headers of a record that name the schemas of its value and of its key. A value or key whose schema a header names has no frame.
const (
	schemaHeader    = "__value_schema_id"
	keySchemaHeader = "__key_schema_id"
)

// NamesSchema reports whether a header of this name names the schema of a record's value or key.
func NamesSchema(header string) bool { return header == schemaHeader || header == keySchemaHeader }

const (
	// guidBytes is the length of a schema's GUID in bytes.
	guidBytes = 16
	// maxKnownSchemas bounds the compiled schemas that a decoder keeps.
	maxKnownSchemas = 1000
)

// SchemaID names a schema of a registry by a number, or by a GUID if IsGUID is set.
type SchemaID struct {
	Number uint32
	GUID   [guidBytes]byte
	IsGUID bool
}

// String returns the number in decimal, or the GUID as registries write it.
func (id SchemaID) String() string {
	if !id.IsGUID {
		return strconv.FormatUint(uint64(id.Number), 10)
	}
	text := hex.EncodeToString(id.GUID[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// NeedSchemaError is the error of a record whose schema the decoder does not know. After Learn the record can be decoded again.
type NeedSchemaError struct {
	ID SchemaID
	// Cause is the error of Ask. Nil means that Ask was not called.
	Cause error
}

// Error says which schema is missing.
func (e *NeedSchemaError) Error() string {
	if e.Cause != nil {
		return "the schema " + e.ID.String() + " cannot be read now: " + e.Cause.Error()
	}
	return "the schema " + e.ID.String() + " is not known yet"
}

// Unwrap returns the cause.
func (e *NeedSchemaError) Unwrap() error { return e.Cause }

// Schema is what a registry has under an id.
type Schema struct {
	// Format is Avro, Protobuf, or JSON for a JSON Schema. Empty means Avro.
	Format Format
	// Text is an Avro schema as JSON, or the descriptors of a Protobuf schema. The last file in the set of descriptors is the
	// schema's own.
	Text string
	// References are the Avro schemas whose types the schema uses. Each follows the schemas to which it refers itself.
	References []string
	// Reason says why records of the schema cannot be read, and Detail explains it. Empty means that they can be read. Text is
	// empty if Reason is set.
	Reason Reason
	Detail string
}

// knownSchema is a schema that the decoder knows, compiled.
type knownSchema struct {
	format Format
	wrong  *DecodeError   // the error of every value and key of the schema. Nil means that the schema can be used.
	avro   *avroType      // the type of an Avro schema
	plan   *avroPlan      // the plan of its events
	isNone *DecodeError   // why its values are no events. Nil means that they are.
	proto  *protoMessages // the messages of a Protobuf schema
}

// Learn tells the decoder a schema. When the decoder knows too many schemas, it forgets all earlier ones.
func (d *Decoder) Learn(id SchemaID, s Schema) { d.learn(id, s) }

// learn is Learn, and returns the compiled schema.
func (d *Decoder) learn(id SchemaID, s Schema) *knownSchema {
	known := &knownSchema{format: cmp.Or(s.Format, Avro)}
	bad := func(format string, args ...any) *DecodeError {
		return newError(BadSchema, "", "schema %s: %s", id, fmt.Sprintf(format, args...))
	}
	if known.format != d.options.Format {
		known.isNone = bad("its type is %s, but EVENT_FORMAT=%s reads %s: set %s for this topic", languages[known.format], d.options.Format, languages[d.options.Format], wayOutOf[known.format])
	}
	var err error
	switch {
	case s.Reason != "":
		known.wrong = newError(s.Reason, "", "schema %s: %s", id, s.Detail)
	case known.format == Avro:
		if known.avro, err = compileAvroType(s.Text, s.References...); err != nil {
			known.wrong = bad("%v", err)
		} else if known.isNone == nil && !known.avro.isEvent() {
			known.isNone = bad("%v", errNoRecord)
		} else if known.isNone == nil {
			known.plan = newAvroPlan(d, known.avro)
		}
	case known.format == Protobuf:
		if known.proto, err = newProtoMessages(s.Text); err != nil {
			known.wrong = bad("%v", err)
		}
	}
	if len(d.schemas) >= maxKnownSchemas {
		clear(d.schemas)
	}
	d.schemas[id], d.frame = known, d.frame[:0]
	return known
}

// languages and wayOutOf hold the languages of schemas, and the settings that read events of such schemas.
var (
	languages = map[Format]string{Avro: "Avro", Protobuf: "Protobuf", JSON: "JSON Schema"}
	wayOutOf  = map[Format]string{Avro: "EVENT_FORMAT=avro", Protobuf: "EVENT_FORMAT=protobuf", JSON: "EVENT_FORMAT=json and EVENT_FRAMING=confluent"}
)

// Forget makes the decoder forget a schema, so that it asks for the schema again.
func (d *Decoder) Forget(id SchemaID) {
	delete(d.schemas, id)
	d.frame = d.frame[:0]
}

// known returns the schema of an id, and asks for it if necessary. It sets d.need if the schema is still unknown.
func (d *Decoder) known(id SchemaID) (*knownSchema, *DecodeError) {
	known := d.schemas[id]
	var cause error
	if known == nil && d.options.Ask != nil {
		var s Schema
		if s, cause = d.options.Ask(id); cause == nil {
			known = d.learn(id, s)
		}
	}
	if known == nil {
		d.need = &NeedSchemaError{id, cause}
		return nil, newError(UnknownSchema, "", "%v", d.need)
	}
	return known, again(known.wrong)
}

// again copies an error that many records share, so that the error of one record can get a path. It returns nil for nil.
func again(err *DecodeError) *DecodeError {
	if err == nil {
		return nil
	}
	one := *err
	return &one
}

// schemaFrame says which schema a value or key has, by a header or by the frame before it.
type schemaFrame struct {
	id     SchemaID
	header string // Empty means that a frame names the schema.
	rest   []byte // the bytes behind the id, in the header or in the value
	value  []byte // the whole value, with its frame
}

// frameOf reads which schema a value or key has. The last header of the given name counts. Without one, the frame counts.
func (d *Decoder) frameOf(header string, value []byte) (f schemaFrame, err *DecodeError) {
	if named := lastHeader(d.record.Headers, header); named != nil {
		f = schemaFrame{header: header, value: value}
		switch {
		case len(named) >= 1+4 && named[0] == 0:
			f.id.Number, f.rest = binary.BigEndian.Uint32(named[1:]), named[1+4:]
			return f, nil
		case len(named) >= 1+guidBytes && named[0] == 1:
			f.id, f.rest = SchemaID{GUID: [guidBytes]byte(named[1:]), IsGUID: true}, named[1+guidBytes:]
			return f, nil
		}
		return f, newError(d.notRead(), "", "the header %s is %s, which names no schema: send an id (a zero byte and four bytes) or a GUID (a byte 1 and sixteen bytes)", header, quoteText(named))
	}
	if !hasFrame(value) {
		return f, newError(d.notRead(), "", "%s does not begin with the frame of a schema registry (a zero byte and an id), and no header %s names a schema: "+
			"send it with a serializer of the registry, or set %s", quoteText(value), header, map[Format]string{
			Avro: "EVENT_SCHEMA_FILE to the schema of all events", Protobuf: "EVENT_PROTOBUF_FILE to the descriptors of all events",
		}[d.options.Format])
	}
	return schemaFrame{id: SchemaID{Number: binary.BigEndian.Uint32(value[1:])}, rest: value[frameBytes:], value: value}, nil
}

// end returns the bytes behind the frame. If a header names the schema, nothing may follow the id in it, and end returns the
// whole value.
func (f *schemaFrame) end(reason Reason) ([]byte, *DecodeError) {
	switch {
	case f.header == "":
		return f.rest, nil
	case len(f.rest) > 0:
		return nil, newError(reason, "", "the header %s has %d extra bytes after the id of the schema %s", f.header, len(f.rest), f.id)
	}
	return f.value, nil
}

// notRead is the reason for a value that is not in the format.
func (d *Decoder) notRead() Reason {
	if d.options.Format == Protobuf {
		return NotProtobuf
	}
	return NotAvro
}

// maxIndexes bounds the message indexes of a value. There is one index for each level of nested messages.
const maxIndexes = maxDepth

// protoMessages is a registry's schema in Protobuf. The message indexes of a value choose one of its messages.
//
// Serializers count messages in two ways. Confluent's Java serializer counts the messages in the schema's text. Others count the
// messages in its descriptors, which include groups and the entries of maps. The reader tries both ways. If they lead to two
// messages, EVENT_PROTOBUF_MESSAGE says which is meant.
type protoMessages struct {
	messages []*protoChoice // in the order of the descriptors
	indexes  []int          // message indexes of the value that was read last
}

// protoChoice is a message that indexes may choose. It is compiled when it is first chosen.
type protoChoice struct {
	of         protoreflect.MessageDescriptor
	inner      []*protoChoice
	isHidden   bool         // the schema's text does not declare it as a message
	root       *protoMember // nil before it is compiled, and if it is wrong
	plan       *protoPlan   // the plan of its events
	wrong      error        // why no value can be read. Nil means that values can be read.
	isNone     error        // why values are no events. Nil means that they are events, or that this is not known yet.
	isCompiled bool
	isPlanned  bool
}

// newProtoMessages reads a schema from its descriptors.
func newProtoMessages(descriptors string) (*protoMessages, error) {
	_, file, err := readDescriptors(descriptors)
	if err != nil {
		return nil, err
	}
	return &protoMessages{messages: choicesOf(file.Messages(), groupsOf(file.Extensions(), nil))}, nil
}

// choicesOf returns the messages at one level. groups holds the names of groups among them.
func choicesOf(list protoreflect.MessageDescriptors, groups map[protoreflect.FullName]bool) (choices []*protoChoice) {
	for i := range list.Len() {
		of := list.Get(i)
		choices = append(choices, &protoChoice{
			of: of, isHidden: of.IsMapEntry() || groups[of.FullName()], inner: choicesOf(of.Messages(), groupsOf(of.Extensions(), of.Fields())),
		})
	}
	return choices
}

// groupsOf returns the names of the messages that fields and extensions declare as groups.
func groupsOf(extensions protoreflect.ExtensionDescriptors, fields protoreflect.FieldDescriptors) map[protoreflect.FullName]bool {
	groups := map[protoreflect.FullName]bool{}
	add := func(f protoreflect.FieldDescriptor) {
		if f.Kind() == protoreflect.GroupKind {
			groups[f.Message().FullName()] = true
		}
	}
	for i := range extensions.Len() {
		add(extensions.Get(i))
	}
	for i := 0; fields != nil && i < fields.Len(); i++ {
		add(fields.Get(i))
	}
	return groups
}

// findChoice returns the message to which indexes lead. asText means that only the messages of the schema's text are counted. Nil
// means that there is no such message.
func findChoice(list []*protoChoice, indexes []int, asText bool) (found *protoChoice) {
	for _, index := range indexes {
		found = nil
		for _, c := range list {
			if asText && c.isHidden {
				continue
			}
			if index == 0 {
				found = c
				break
			}
			index--
		}
		if found == nil || found.of.IsMapEntry() {
			return nil
		}
		list = found.inner
	}
	return found
}

// cut cuts the message indexes off a text. The text begins with their number and the indexes, each as a zigzag varint. A number
// of zero stands for the indexes [0].
func (f *protoMessages) cut(text []byte) (rest []byte, ok bool) {
	count, n := binary.Varint(text)
	if f.indexes = f.indexes[:0]; n <= 0 || count < 0 || count > maxIndexes {
		return nil, false
	}
	text = text[n:]
	for range count {
		index, n := binary.Varint(text)
		if n <= 0 || index < 0 || index > math.MaxInt32 {
			return nil, false
		}
		f.indexes, text = append(f.indexes, int(index)), text[n:]
	}
	if count == 0 {
		f.indexes = append(f.indexes, 0)
	}
	return text, true
}

// choose returns the message to which the indexes lead. If they lead to two messages, the name decides.
func (f *protoMessages) choose(name string) (*protoChoice, error) {
	full := strings.TrimPrefix(name, ".")
	inText, inAll := findChoice(f.messages, f.indexes, true), findChoice(f.messages, f.indexes, false)
	isNamed := func(c *protoChoice) bool { return name != "" && c != nil && string(c.of.FullName()) == full }
	switch {
	case isNamed(inText):
		return inText, nil
	case isNamed(inAll):
		return inAll, nil
	case inText == nil && inAll == nil:
		return nil, fmt.Errorf("the message indexes %v name no message of the schema, which has %s: was the record written with another schema, or with use.deprecated.format?", f.indexes, f.named())
	case name != "":
		c := inText
		if c == nil {
			c = inAll
		}
		return nil, fmt.Errorf("the value is the message %s, but EVENT_PROTOBUF_MESSAGE=%s: unset this setting to read all messages", c.of.FullName(), name)
	case inText == nil:
		return inAll, nil
	case inAll == nil || inAll == inText:
		return inText, nil
	}
	return nil, fmt.Errorf("the message indexes %v are ambiguous: they mean %s, or %s if the serializer also counts the entries of maps and groups. "+
		"Set EVENT_PROTOBUF_MESSAGE to the right message", f.indexes, inText.of.FullName(), inAll.of.FullName())
}

// named returns the names of the schema's messages for an error.
func (f *protoMessages) named() string {
	var names []string
	for _, c := range f.messages {
		names = append(names, string(c.of.Name()))
	}
	return listNames(names)
}

// compile compiles a message when it is first chosen.
func (c *protoChoice) compile() error {
	if !c.isCompiled {
		c.isCompiled = true
		c.root, c.wrong = compileMessage(c.of)
	}
	return c.wrong
}

// chooseMessage chooses the message of the record by its indexes, and leaves the event in the text.
func (d *Decoder) chooseMessage(file *protoMessages, f schemaFrame) *DecodeError {
	c, err := d.choiceOf(file, &f, d.options.Message)
	if err != nil {
		return err
	}
	if !c.isPlanned {
		c.isPlanned = true
		if c.isNone = c.compile(); c.isNone == nil && !c.root.isEvent() {
			c.isNone = noEvent(c.of)
		} else if c.isNone == nil {
			c.plan = newProtoPlan(d, c.root)
		}
	}
	if c.isNone != nil {
		return newError(BadSchema, "", "schema %s: %v", f.id, c.isNone)
	}
	d.text, err = f.end(NotProtobuf)
	d.protoRoot, d.protoPlan = c.root, c.plan
	return err
}

// choiceOf cuts the message indexes off the bytes behind the schema's id, and returns the message to which they lead.
func (d *Decoder) choiceOf(file *protoMessages, f *schemaFrame, name string) (*protoChoice, *DecodeError) {
	rest, ok := file.cut(f.rest)
	if !ok {
		return nil, newError(NotProtobuf, "", "message indexes must follow the id of the schema %s, but %s follows: send the record with a serializer of the registry, in Python without use.deprecated.format", f.id, quoteText(f.rest))
	}
	c, wrong := file.choose(name)
	if wrong != nil {
		return nil, newError(NotProtobuf, "", "schema %s: %v", f.id, wrong)
	}
	f.rest = rest
	return c, nil
}

// listNames joins sorted names of messages, at most mostNamed of them.
func listNames(names []string) string {
	if slices.Sort(names); len(names) == 0 {
		return "none"
	}
	if more := len(names) - mostNamed; more > 0 {
		return clip(strings.Join(names[:mostNamed], ", ")) + fmt.Sprintf(" and %d more", more)
	}
	return clip(strings.Join(names, ", "))
}
