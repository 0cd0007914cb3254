package measurement

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"waterwheel/internal/timeseries/rawbson"
)

const (
	// MaxDescriptorBytes bounds a set of descriptors, which may hold many more messages than the events need.
	MaxDescriptorBytes = 16 << 20
	// nearNumbers bounds the numbers of fields and of symbols that are found by an index. Higher numbers are found in a map.
	nearNumbers = 256
	// mostNamed bounds the messages that an error names.
	mostNamed = 5
)

// protoKind says what a value of a field becomes in BSON.
type protoKind uint8

// The kinds of values. The kinds before protoEnum are numbers.
const (
	protoInt32 protoKind = iota
	protoSint32
	protoInt64
	protoSint64
	protoUint32
	protoUint64
	protoFloat
	protoDouble
	protoBool
	protoEnum
	protoNull // the enum with the only value null
	protoString
	protoBytes
	protoObject    // a message
	protoOnly      // a message that stands for the value of its only set field
	protoTimestamp // a message of seconds and nanoseconds
	protoDuration
	protoDecimal // Confluent's message of a number in bytes and its scale
)

// isMessage reports whether values of a kind are messages.
func (k protoKind) isMessage() bool { return k >= protoObject }

// protoScalars are the kinds of the scalar types, and their wire types.
var protoScalars = map[protoreflect.Kind]struct {
	kind protoKind
	wire protowire.Type
}{
	protoreflect.Int32Kind: {protoInt32, protowire.VarintType}, protoreflect.Sint32Kind: {protoSint32, protowire.VarintType},
	protoreflect.Int64Kind: {protoInt64, protowire.VarintType}, protoreflect.Sint64Kind: {protoSint64, protowire.VarintType},
	protoreflect.Uint32Kind: {protoUint32, protowire.VarintType}, protoreflect.Uint64Kind: {protoUint64, protowire.VarintType},
	protoreflect.Fixed32Kind: {protoUint32, protowire.Fixed32Type}, protoreflect.Fixed64Kind: {protoUint64, protowire.Fixed64Type},
	protoreflect.Sfixed32Kind: {protoInt32, protowire.Fixed32Type}, protoreflect.Sfixed64Kind: {protoInt64, protowire.Fixed64Type},
	protoreflect.FloatKind: {protoFloat, protowire.Fixed32Type}, protoreflect.DoubleKind: {protoDouble, protowire.Fixed64Type},
	protoreflect.BoolKind: {protoBool, protowire.VarintType}, protoreflect.EnumKind: {protoEnum, protowire.VarintType},
	protoreflect.StringKind: {protoString, protowire.BytesType}, protoreflect.BytesKind: {protoBytes, protowire.BytesType},
}

// protoMessage is a compiled message. A recursive message points to itself.
type protoMessage struct {
	members  []protoMember
	near     []int16        // index of a number's member plus one, by the number
	far      map[uint64]int // index of the member, for higher numbers
	tags     []byte         // the tag of each member with a single value and a tag of one byte. Others have noTag.
	sorted   []int          // the members in the order of their names
	isTexts  bool           // all members are single texts with tags of one byte
	isNormal bool           // values can be written in the normal form of meta
	name     string         // the full one
}

// noTag is no tag, because no wire type has the number 7.
const noTag = 7

// protoMember is a field of a message.
type protoMember struct {
	header      []byte // header of the BSON element
	kind        protoKind
	wire        protowire.Type
	isList      bool
	isMap       bool // a list of messages, each with a name and a value
	isPackable  bool
	isNumber    bool          // a number, neither in a list nor in a map
	size        int           // size in bytes of a number whose bits are the same in BSON. Zero means that the bits differ.
	isLinked    bool          // several values may be linked, because it is a list, a map, or a message in pieces
	hasPresence bool          // an unset field is absent. Otherwise it has its zero value.
	siblings    []int         // indexes of the other members of a oneof
	message     *protoMessage // type of a message, or of the entries of a map
	enum        *protoSymbols
}

func (m *protoMember) name() []byte { return m.header[1 : len(m.header)-1] }

// protoSymbols holds the symbols of an enum by their numbers, each as the value of a BSON string.
type protoSymbols struct {
	near [][]byte
	far  map[int32][]byte
}

// of returns the symbol of a number, or nil if there is none.
func (s *protoSymbols) of(number int32) []byte {
	if number >= 0 && int(number) < len(s.near) {
		return s.near[number]
	}
	return s.far[number]
}

// member returns the index of the member with a number, or -1 if there is none.
func (t *protoMessage) member(number uint64) int {
	if number < uint64(len(t.near)) {
		return int(t.near[number]) - 1
	}
	if i, found := t.far[number]; found {
		return i
	}
	return -1
}

// CheckMessage returns why events cannot be read as a message of a set of descriptors. Nil means that they can.
func CheckMessage(descriptors, message string) error {
	_, err := compileProto(descriptors, message)
	return err
}

// compileProto compiles a message of a set of descriptors that protoc or buf wrote.
func compileProto(descriptors, message string) (*protoMember, error) {
	files, _, err := readDescriptors(descriptors)
	if err != nil {
		return nil, err
	}
	found, err := files.FindDescriptorByName(protoreflect.FullName(strings.TrimPrefix(message, ".")))
	if err != nil {
		return nil, fmt.Errorf("the descriptor set has no message %s; it has %s", quoteText(message), namedMessages(files))
	}
	of, isMessage := found.(protoreflect.MessageDescriptor)
	if !isMessage || of.IsMapEntry() {
		return nil, fmt.Errorf("%s is not a message type of the descriptor set; it has %s", quoteText(message), namedMessages(files))
	}
	root, err := compileMessage(of)
	if err == nil && !root.isEvent() {
		err = noEvent(of)
	}
	return root, err
}

// readDescriptors reads a set of descriptors. The last file is the file that imports the others, if one tool wrote the set.
func readDescriptors(descriptors string) (files *protoregistry.Files, last protoreflect.FileDescriptor, err error) {
	if len(descriptors) > MaxDescriptorBytes {
		return nil, nil, fmt.Errorf("the descriptor set has %d bytes, more than %d", len(descriptors), MaxDescriptorBytes)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal([]byte(descriptors), &set); err != nil || len(set.GetFile()) == 0 {
		return nil, nil, errors.New("not a descriptor set: write the file with protoc --include_imports --descriptor_set_out=FILE, or with buf build -o FILE")
	}
	if files, err = protodesc.NewFiles(&set); err == nil {
		last, err = files.FindFileByPath(set.GetFile()[len(set.GetFile())-1].GetName())
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the descriptor set cannot be used: %s; write the file with protoc --include_imports, or with buf build", cleanProto(err))
	}
	return files, last, nil
}

// compileMessage compiles a message and the messages in it.
func compileMessage(of protoreflect.MessageDescriptor) (*protoMember, error) {
	c := protoCompiler{messages: map[protoreflect.FullName]*protoMessage{}, enums: map[protoreflect.FullName]*protoSymbols{}}
	root := &protoMember{isLinked: true}
	if err := c.inside(root, of); err != nil {
		return nil, err
	}
	for _, t := range c.messages {
		t.isNormal = t.judge(map[*protoMessage]bool{})
	}
	return root, nil
}

// isEvent reports whether all values of a message are objects.
func (m *protoMember) isEvent() bool {
	return m.kind == protoObject || m.kind == protoOnly && m.message.members[0].isMap
}

// noEvent is the error of a message whose values are not events.
func noEvent(of protoreflect.MessageDescriptor) error {
	return fmt.Errorf("%s is stored as a single value, but an event must be an object: name the message that contains %[1]s", quoteText(of.FullName()))
}

// cleanProto returns the text of an error of the protobuf library. The library varies the blanks from build to build.
func cleanProto(err error) string {
	return clip(strings.Join(strings.Fields(strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto:")), " "))
}

// namedMessages returns the names of a set's messages for an error, without the messages of Google's own files.
func namedMessages(files *protoregistry.Files) string {
	var names []string
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(file.Path(), "google/protobuf/") {
			return true
		}
		for i := range file.Messages().Len() {
			names = append(names, string(file.Messages().Get(i).FullName()))
		}
		return true
	})
	return listNames(names)
}

// protoCompiler compiles a message and the messages in it.
type protoCompiler struct {
	messages map[protoreflect.FullName]*protoMessage
	enums    map[protoreflect.FullName]*protoSymbols
	members  int
}

// message compiles a message.
func (c *protoCompiler) message(of protoreflect.MessageDescriptor) (*protoMessage, error) {
	if t := c.messages[of.FullName()]; t != nil {
		return t, nil
	}
	fields := of.Fields()
	if c.members += fields.Len(); c.members > maxSchemaNodes {
		return nil, fmt.Errorf("the message and the messages in it have more than %d fields", maxSchemaNodes)
	}
	t := &protoMessage{name: string(of.FullName()), members: make([]protoMember, fields.Len()), far: map[uint64]int{}}
	c.messages[of.FullName()] = t
	for i := range t.members {
		field, m := fields.Get(i), &t.members[i]
		number := uint64(field.Number())
		if number < nearNumbers {
			t.near = append(t.near, make([]int16, max(0, int(number)+1-len(t.near)))...)
			t.near[number] = int16(i + 1)
		} else {
			t.far[number] = i
		}
		t.sorted = append(t.sorted, i)
		m.header = newHeader([]byte(field.Name()))
		m.isList, m.isMap = field.IsList(), field.IsMap()
		m.hasPresence = field.HasPresence() && !of.IsMapEntry()
		if oneof := field.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
			for j := range oneof.Fields().Len() {
				if other := oneof.Fields().Get(j).Index(); other != i {
					m.siblings = append(m.siblings, other)
				}
			}
		}
		if err := c.member(m, field); err != nil {
			return nil, err
		}
	}
	t.tags, t.isTexts = make([]byte, len(t.members)), len(t.members) <= mostMembers
	for i := range t.members {
		m, tag := &t.members[i], protowire.EncodeTag(fields.Get(i).Number(), t.members[i].wire)
		if t.tags[i] = noTag; tag < 0x80 && !m.isLinked && m.siblings == nil {
			t.tags[i] = byte(tag)
		}
		t.isTexts = t.isTexts && t.tags[i] != noTag && m.kind == protoString
	}
	slices.SortFunc(t.sorted, func(a, b int) int { return bytes.Compare(t.members[a].name(), t.members[b].name()) })
	return t, nil
}

// member compiles the type of a field.
func (c *protoCompiler) member(m *protoMember, field protoreflect.FieldDescriptor) error {
	if scalar, is := protoScalars[field.Kind()]; is {
		m.kind, m.wire = scalar.kind, scalar.wire
		m.isPackable = m.isList && m.wire != protowire.BytesType
		if m.kind == protoEnum {
			m.enum = c.symbols(field.Enum())
		}
		if m.kind == protoEnum && field.Enum().FullName() == "google.protobuf.NullValue" {
			m.kind = protoNull
		}
		m.isNumber, m.isLinked = m.kind < protoEnum && !m.isList, m.isList
		if m.kind == protoInt32 || m.kind == protoInt64 || m.kind == protoDouble {
			kind, _, size := m.kind.number(0)
			m.header[0], m.size = byte(kind), size
		}
		return nil
	}
	m.isLinked, m.wire = true, protowire.BytesType
	if field.Kind() == protoreflect.GroupKind {
		m.wire = protowire.StartGroupType
	}
	return c.inside(m, field.Message())
}

// inside compiles the message type of a member.
func (c *protoCompiler) inside(m *protoMember, of protoreflect.MessageDescriptor) (err error) {
	m.kind = protoKindOf(of)
	m.message, err = c.message(of)
	return err
}

// symbols compiles an enum. If several symbols have one number, the first counts.
func (c *protoCompiler) symbols(of protoreflect.EnumDescriptor) *protoSymbols {
	if s := c.enums[of.FullName()]; s != nil {
		return s
	}
	s := &protoSymbols{far: map[int32][]byte{}}
	c.enums[of.FullName()] = s
	for i := range of.Values().Len() {
		value := of.Values().Get(i)
		number := int32(value.Number())
		if s.of(number) != nil {
			continue
		}
		symbol := rawbson.AppendString(nil, string(value.Name()))
		if number >= 0 && number < nearNumbers {
			s.near = append(s.near, make([][]byte, max(0, int(number)+1-len(s.near)))...)
			s.near[number] = symbol
		} else {
			s.far[number] = symbol
		}
	}
	return s
}

// protoKindOf returns what values of a message become. It recognises Google's own messages and Confluent's Decimal by their names
// and their fields.
func protoKindOf(of protoreflect.MessageDescriptor) protoKind {
	name, own := strings.CutPrefix(string(of.FullName()), "google.protobuf.")
	fields := of.Fields()
	if of.FullName() == "confluent.type.Decimal" && isDecimal(fields) {
		return protoDecimal
	}
	if !own || fields.Len() == 0 {
		return protoObject
	}
	first := fields.Get(0)
	isScalar := first.Message() == nil
	switch name {
	case "Timestamp", "Duration":
		if fields.Len() != 2 || first.Kind() != protoreflect.Int64Kind || fields.Get(1).Kind() != protoreflect.Int32Kind || first.IsList() || fields.Get(1).IsList() {
			return protoObject
		}
		if name == "Timestamp" {
			return protoTimestamp
		}
		return protoDuration
	case "DoubleValue", "FloatValue", "Int64Value", "UInt64Value", "Int32Value", "UInt32Value", "BoolValue", "StringValue", "BytesValue":
		if fields.Len() == 1 && isScalar && !first.IsList() {
			return protoOnly
		}
	case "Struct":
		if fields.Len() == 1 && first.IsMap() {
			return protoOnly
		}
	case "ListValue":
		if fields.Len() == 1 && first.IsList() {
			return protoOnly
		}
	case "Value":
		if isValue(of) {
			return protoOnly
		}
	}
	return protoObject
}

// The indexes of the number and the scale among the fields of Confluent's Decimal. The precision between them is ignored.
const decimalNumber, decimalScale = 0, 2

// isDecimal reports whether a message has the fields of Confluent's Decimal.
func isDecimal(fields protoreflect.FieldDescriptors) bool {
	if fields.Len() != 3 || fields.Get(decimalNumber).Kind() != protoreflect.BytesKind || fields.Get(decimalScale).Kind() != protoreflect.Int32Kind {
		return false
	}
	return !fields.Get(decimalNumber).IsList() && !fields.Get(decimalScale).IsList()
}

// isValue reports whether a message is a oneof of several values. It must not hold a Value directly. A nested value must be in an
// object or an array, whose depth is bounded in BSON.
func isValue(of protoreflect.MessageDescriptor) bool {
	oneof := of.Oneofs()
	if oneof.Len() != 1 || oneof.Get(0).Fields().Len() != of.Fields().Len() {
		return false
	}
	for i := range of.Fields().Len() {
		if m := of.Fields().Get(i).Message(); m != nil && m.FullName() != "google.protobuf.Struct" && m.FullName() != "google.protobuf.ListValue" {
			return false
		}
	}
	return true
}

// judge reports whether values of a message that are written in the order of their names are in the normal form of meta. They
// must hold no map, because its names are not known in advance.
func (t *protoMessage) judge(known map[*protoMessage]bool) bool {
	if normal, found := known[t]; found {
		return normal // a message that contains itself counts as not normal
	}
	known[t] = false
	normal := !slices.ContainsFunc(t.members, func(m protoMember) bool { return m.isMap || m.message != nil && !m.message.judge(known) })
	known[t] = normal
	return normal
}
