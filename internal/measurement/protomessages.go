package measurement

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

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
