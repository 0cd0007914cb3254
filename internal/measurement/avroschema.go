package measurement

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/avro"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

const (
	// MaxSchemaBytes bounds the text of a schema.
	MaxSchemaBytes = 1 << 20
	// MaxReferences bounds the schemas to which one schema refers.
	MaxReferences = 100
	// maxSchemaNodes bounds the types in a schema. Each reference counts.
	maxSchemaNodes = 10_000
)

// avroKind says how a value is encoded and what it becomes in BSON.
type avroKind uint8

// The kinds of types.
const (
	avroNull avroKind = iota
	avroBoolean
	avroInt
	avroLong
	avroFloat
	avroDouble
	avroString
	avroBytes
	avroFixed
	avroUUID // fixed of 16 bytes
	avroEnum
	avroRecord
	avroArray
	avroMap
	avroUnion

	avroDays         // an int that counts days since 1970
	avroMillis       // a long that counts milliseconds since 1970
	avroMicros       // a long that counts microseconds
	avroNanos        // a long that counts nanoseconds
	avroLocalMillis  // milliseconds, as clocks without a zone count them
	avroLocalMicros  // microseconds, likewise
	avroLocalNanos   // nanoseconds, likewise
	avroDecimal      // a number in bytes, with the scale of the type
	avroFixedDecimal // a decimal in a fixed
	avroKinds        // how many kinds there are
)

// uuidBytes is how long a UUID is.
const uuidBytes = 16

// avroTypes maps kinds to BSON types. A value of a union has the type of its branch.
var avroTypes = [avroKinds]bson.Type{
	avroNull: bson.TypeNull, avroBoolean: bson.TypeBoolean, avroInt: bson.TypeInt32, avroLong: bson.TypeInt64, avroFloat: bson.TypeDouble,
	avroDouble: bson.TypeDouble, avroString: bson.TypeString, avroBytes: bson.TypeBinary, avroFixed: bson.TypeBinary, avroUUID: bson.TypeBinary,
	avroEnum: bson.TypeString, avroRecord: bson.TypeEmbeddedDocument, avroArray: bson.TypeArray, avroMap: bson.TypeEmbeddedDocument,
	avroDays: bson.TypeDateTime, avroMillis: bson.TypeDateTime, avroMicros: bson.TypeDateTime, avroNanos: bson.TypeDateTime,
	avroLocalMillis: bson.TypeDateTime, avroLocalMicros: bson.TypeDateTime, avroLocalNanos: bson.TypeDateTime,
	avroDecimal: bson.TypeDecimal128, avroFixedDecimal: bson.TypeDecimal128,
}

// avroType is a compiled type. A recursive type points to itself.
type avroType struct {
	kind     avroKind
	size     int // size of a fixed in bytes
	scale    int // scale of a decimal
	fields   []avroField
	items    *avroType   // type of the items of an array or map
	branches []*avroType // types of the branches of a union
	symbols  [][]byte    // symbols of an enum, each as the value of a BSON string
	name     string      // name of a record, enum or fixed
	isEmpty  bool        // values take no bytes
	isJudged bool        // isEmpty is known
}

// avroField is a field of a record.
type avroField struct {
	header []byte // header of the BSON element, with the type if all values have the same
	*avroType
}

func (f *avroField) name() []byte { return f.header[1 : len(f.header)-1] }

// avroLogical maps a type and its logical type to the kind of its values. It also knows the names of Kafka Connect's and
// Debezium's types of the same meaning, which their converters write beside the type.
var avroLogical = map[string]avroKind{
	"int date": avroDays, "int org.apache.kafka.connect.data.Date": avroDays, "int io.debezium.time.Date": avroDays,

	"long timestamp-millis": avroMillis, "long timestamp-micros": avroMicros, "long timestamp-nanos": avroNanos,
	"long local-timestamp-millis": avroLocalMillis, "long local-timestamp-micros": avroLocalMicros, "long local-timestamp-nanos": avroLocalNanos,
	"long org.apache.kafka.connect.data.Timestamp": avroMillis, "long io.debezium.time.Timestamp": avroMillis,
	"long io.debezium.time.MicroTimestamp": avroMicros, "long io.debezium.time.NanoTimestamp": avroNanos,

	"bytes decimal": avroDecimal, "fixed decimal": avroFixedDecimal, "fixed uuid": avroUUID,
}

// avroPlain maps types without a logical type to kinds.
var avroPlain = map[string]avroKind{
	"null": avroNull, "boolean": avroBoolean, "int": avroInt, "long": avroLong, "float": avroFloat, "double": avroDouble, "string": avroString,
	"bytes": avroBytes, "fixed": avroFixed, "enum": avroEnum, "record": avroRecord, "error": avroRecord, "array": avroArray, "map": avroMap, "union": avroUnion,
}

// CheckSchema explains why events cannot be read by an Avro schema. Nil means that they can.
func CheckSchema(text string) error {
	_, err := compileAvro(text)
	return err
}

// errNoRecord is the error of a schema whose values are not events.
var errNoRecord = errors.New("the schema is not a record: an event must be an object, so have its producer send records")

// compileAvro compiles a schema of events. These are objects, so the schema is a record, or a union of records.
func compileAvro(text string) (*avroType, error) {
	root, err := compileAvroType(text)
	if err == nil && !root.isEvent() {
		err = errNoRecord
	}
	return root, err
}

// compileAvroType compiles a schema. It compiles the schemas to which it refers first.
func compileAvroType(text string, references ...string) (root *avroType, err error) {
	size := len(text)
	for _, reference := range references {
		size += len(reference)
	}
	if size > MaxSchemaBytes || len(references) > MaxReferences {
		return nil, fmt.Errorf("the schema has %d bytes and %d references, but at most %d bytes and %d references are allowed", size, len(references), MaxSchemaBytes, MaxReferences)
	}
	var cache avro.SchemaCache
	c := avroCompiler{named: map[string]*avroType{}}
	for _, one := range append(slices.Clip(references), text) {
		parsed, err := cache.Parse(one)
		if err != nil {
			return nil, fmt.Errorf("not an Avro schema: %s", clip(err.Error()))
		}
		if root, err = c.compile(parsed.Root(), "", 1); err != nil {
			return nil, err
		}
	}
	for _, t := range c.all {
		t.judge()
	}
	return root, nil
}

// isEvent reports whether all values of a type are objects. Null is allowed too, as a tombstone.
func (t *avroType) isEvent() bool {
	if t.kind != avroUnion {
		return t.kind == avroRecord || t.kind == avroMap
	}
	records := 0
	for _, branch := range t.branches {
		if branch.kind != avroNull {
			if !branch.isEvent() {
				return false
			}
			records++
		}
	}
	return records > 0
}

// judge sets isEmpty. A record that contains itself is not empty.
func (t *avroType) judge() bool {
	if t.isJudged {
		return t.isEmpty
	}
	t.isJudged = true
	switch t.kind {
	case avroNull:
		t.isEmpty = true
	case avroFixed:
		t.isEmpty = t.size == 0
	case avroRecord:
		t.isEmpty = !slices.ContainsFunc(t.fields, func(f avroField) bool { return !f.judge() })
	}
	return t.isEmpty
}

// avroCompiler compiles one schema.
type avroCompiler struct {
	named map[string]*avroType
	all   []*avroType
	nodes int
}

// compile compiles a node. Names without a namespace belong to the given one.
func (c *avroCompiler) compile(n *avro.SchemaNode, namespace string, depth int) (*avroType, error) {
	if c.nodes++; c.nodes > maxSchemaNodes {
		return nil, fmt.Errorf("the schema has more than %d types", maxSchemaNodes)
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("the schema's types are nested more than %d levels deep", maxDepth)
	}
	kind, known := avroPlain[n.Type]
	if !known {
		return c.reference(n.Type, namespace)
	}
	t := &avroType{kind: kind, size: n.Size, scale: n.Scale}
	c.all = append(c.all, t)
	if logical, found := avroLogical[n.Type+" "+n.LogicalType]; found && (logical != avroUUID || n.Size == uuidBytes) {
		t.kind = logical
	} else if name, isText := n.Props["connect.name"].(string); isText && avroLogical[n.Type+" "+name] != 0 {
		t.kind = avroLogical[n.Type+" "+name]
	}
	if n.Name != "" {
		if i := strings.LastIndexByte(n.Name, '.'); i >= 0 {
			namespace, t.name = n.Name[:i], n.Name
		} else {
			namespace, t.name = n.Namespace, fullName(n.Namespace, n.Name)
		}
		c.named[t.name] = t
	}
	return t, c.inside(t, n, namespace, depth)
}

// inside compiles the parts of a type.
func (c *avroCompiler) inside(t *avroType, n *avro.SchemaNode, namespace string, depth int) (err error) {
	switch t.kind {
	case avroRecord:
		t.fields = make([]avroField, len(n.Fields))
		for i := range n.Fields {
			f := &t.fields[i]
			if f.avroType, err = c.compile(&n.Fields[i].Type, namespace, depth+1); err != nil {
				return err
			}
			f.header = newHeader([]byte(n.Fields[i].Name))
			f.header[0] = byte(avroTypes[f.kind])
		}
	case avroArray:
		t.items, err = c.compile(n.Items, namespace, depth+1)
	case avroMap:
		t.items, err = c.compile(n.Values, namespace, depth+1)
	case avroUnion:
		t.branches = make([]*avroType, len(n.Branches))
		for i := range n.Branches {
			if t.branches[i], err = c.compile(&n.Branches[i], namespace, depth+1); err != nil {
				return err
			}
		}
	case avroEnum:
		for _, symbol := range n.Symbols {
			t.symbols = append(t.symbols, rawbson.AppendString(nil, symbol))
		}
	}
	return err
}

// reference returns the type of a name, which must have been compiled before.
func (c *avroCompiler) reference(name, namespace string) (*avroType, error) {
	if !strings.ContainsRune(name, '.') {
		if t := c.named[fullName(namespace, name)]; t != nil {
			return t, nil
		}
	}
	if t := c.named[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("the schema uses the type %s, but does not define it", quoteText(name))
}

func fullName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "." + name
}
