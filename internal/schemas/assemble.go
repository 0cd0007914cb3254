package schemas

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/ast"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"waterwheel/internal/measurement"
)

// reference names a schema to which another one refers.
type reference struct {
	Name    string `json:"name"` // in Protobuf, the path that is imported
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// The types of schemas that a registry names. Registries omit the type of Avro schemas.
const (
	typeAvro     = "AVRO"
	typeProtobuf = "PROTOBUF"
	typeJSON     = "JSON"
)

// assemble makes the schema of an answer, with the schemas to which it refers. The schema's Reason says why records cannot be
// read by it.
func (c *Client) assemble(ctx context.Context, a answer) (measurement.Schema, error) {
	w := walk{client: c, of: cmp.Or(a.Type, typeAvro), seen: map[reference]bool{}, left: measurement.MaxSchemaBytes}
	if w.of == typeJSON {
		return measurement.Schema{Format: measurement.JSON}, nil // decoders do not need its text
	}
	err := w.take(ctx, a, reference{}, 0)
	var s measurement.Schema
	if err == nil {
		s, err = w.schema(ctx)
	}
	if bad, ok := errors.AsType[*badError](err); ok {
		return measurement.Schema{Reason: measurement.BadSchema, Detail: bad.Error()}, nil
	}
	return s, err
}

// badError says why records cannot be read by a schema.
type badError struct{ text string }

func (e *badError) Error() string { return e.text }

// walk collects a schema and its references. Each schema follows the schemas to which it refers.
type walk struct {
	client *Client
	of     string // the type of all these schemas
	seen   map[reference]bool
	texts  []source
	left   int // bytes that they may still take
}

// source is the text of a schema, and the reference to it. The reference is empty for the schema itself.
type source struct {
	reference
	text string
}

func (w *walk) take(ctx context.Context, a answer, as reference, depth int) error {
	switch of := cmp.Or(a.Type, typeAvro); {
	case a.tooLong || len(a.Schema) > w.left:
		return &badError{fmt.Sprintf("it has more than %d bytes, including its references", measurement.MaxSchemaBytes)}
	case of != typeAvro && of != typeProtobuf:
		return &badError{fmt.Sprintf("its type is %q, but only Avro, Protobuf and JSON Schema are supported", clip(of))}
	case of != w.of:
		return &badError{fmt.Sprintf("its type is %s, but it refers to version %d of %q, whose type is %s", w.of, as.Version, clip(as.Subject), of)}
	case depth > measurement.MaxReferences:
		return &badError{fmt.Sprintf("its references are nested more than %d levels deep", measurement.MaxReferences)}
	}
	w.left -= len(a.Schema)
	for _, r := range a.References {
		one := r
		if w.of == typeAvro {
			one.Name = "" // Avro's types have their own names
		}
		if w.seen[one] {
			continue
		}
		w.seen[one] = true
		if len(w.seen) > measurement.MaxReferences {
			return &badError{fmt.Sprintf("it has more than %d references", measurement.MaxReferences)}
		}
		path := fmt.Sprintf("/subjects/%s/versions/%d", url.PathEscape(r.Subject), r.Version)
		found, err := w.client.get(ctx, path)
		switch {
		case err != nil:
			return err
		case found.Code == codeNoSubject || found.Code == codeNoVersion || found.Code == codeNoSchema:
			return &badError{fmt.Sprintf("it refers to version %d of %q, which the registry does not have", r.Version, clip(r.Subject))}
		case found.Code != 0:
			return found.failure(path)
		}
		if err := w.take(ctx, found, r, depth+1); err != nil {
			return err
		}
	}
	w.texts = append(w.texts, source{as, a.Schema})
	return nil
}

// schema returns the collected schemas in the form that decoders take.
func (w *walk) schema(ctx context.Context) (measurement.Schema, error) {
	last := len(w.texts) - 1
	if w.of == typeProtobuf {
		w.client.compiling.Lock()
		defer w.client.compiling.Unlock()
		descriptors, err := compile(ctx, w.texts[last].text, w.texts[:last])
		return measurement.Schema{Format: measurement.Protobuf, Text: descriptors}, err
	}
	s := measurement.Schema{Format: measurement.Avro, Text: w.texts[last].text}
	for _, one := range w.texts[:last] {
		s.References = append(s.References, one.text)
	}
	return s, nil
}

// maxStatements bounds the statements of a schema in Protobuf and its references, because a compiler needs thousands of bytes for
// each.
const maxStatements = 30_000

// deepestFile bounds the nesting of messages in a serialized file. In a text the compiler accepts 32 levels.
const deepestFile = 40

// compile compiles a schema in Protobuf to a set of descriptors, in which it is the last file. It imports the sources by their
// names, and the files that come with Protobuf or with Confluent's serializers. It reads nothing from disk.
//
// It leaves out services, and options that are not part of the language. Neither changes the meaning of bytes. The files that
// define such options often differ from the author's files.
//
// The timeout of a question to the registry does not end a compilation. A compilation makes no requests, and maxStatements bounds
// it.
func compile(ctx context.Context, text string, imports []source) (string, error) {
	c := protoCompiler{of: map[string]source{}, main: "schema.proto"}
	statements := countStatements(text)
	for _, one := range imports {
		if _, found := c.of[one.Name]; !found {
			c.of[one.Name] = one
		}
		statements += countStatements(one.text)
	}
	if statements > maxStatements {
		return "", &badError{fmt.Sprintf("it has more than %d statements, including its references", maxStatements)}
	}
	for _, taken := c.of[c.main]; taken; _, taken = c.of[c.main] {
		c.main = "the " + c.main
	}
	c.of[c.main] = source{text: text}
	files, err := (&protocompile.Compiler{Resolver: protocompile.WithStandardImports(&c), MaxParallelism: 1}).Compile(context.WithoutCancel(ctx), c.main)
	if err != nil {
		return "", &badError{c.explain(err)}
	}
	var set descriptorpb.FileDescriptorSet
	collect(&set, map[string]bool{}, files[0])
	descriptors, err := proto.MarshalOptions{Deterministic: true}.Marshal(&set)
	switch {
	case err != nil:
		return "", &badError{"its descriptors cannot be written: " + clip(err.Error())}
	case len(descriptors) > measurement.MaxDescriptorBytes:
		return "", &badError{fmt.Sprintf("its descriptors have more than %d bytes", measurement.MaxDescriptorBytes)}
	}
	return string(descriptors), nil
}

// countStatements returns an upper bound of the statements in a text. In a serialized file it counts every eighth character.
func countStatements(text string) int {
	if serialized(text) != nil {
		return len(text) / 8
	}
	return strings.Count(text, ";") + strings.Count(text, "{") + strings.Count(text, ",")
}

// collect adds a file to a set, after the files that it imports.
func collect(set *descriptorpb.FileDescriptorSet, known map[string]bool, file protoreflect.FileDescriptor) {
	if known[file.Path()] {
		return
	}
	known[file.Path()] = true
	for i := range file.Imports().Len() {
		collect(set, known, file.Imports().Get(i).FileDescriptor)
	}
	set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
}

// protoCompiler holds the files of one compilation.
type protoCompiler struct {
	main string            // the name of the schema itself
	of   map[string]source // the files by the names that imports use

	mu     sync.Mutex
	broken error // the error of the first file that could not be parsed. The error of its import lacks the place in the file.
}

// FindFileByPath implements protocompile.Resolver.
func (c *protoCompiler) FindFileByPath(path string) (protocompile.SearchResult, error) {
	one, found := c.of[path]
	if !found {
		if one.text, found = wellKnown[path]; !found {
			return protocompile.SearchResult{}, &missingError{path}
		}
	}
	if file := serialized(one.text); file != nil {
		file.Name, file.Service = &path, nil
		nameInJSON(file.GetExtension(), file.GetMessageType())
		return protocompile.SearchResult{Proto: file}, nil
	}
	parsed, err := parse(path, one.text)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.broken = cmp.Or(c.broken, err)
		return protocompile.SearchResult{}, err
	}
	return protocompile.SearchResult{ParseResult: parsed}, nil
}

// serialized decodes a file whose descriptor is written in base64. Confluent's clients for Python and others register schemas in
// this form, which most registries convert to text. Nil means that the text has another form.
func serialized(text string) *descriptorpb.FileDescriptorProto {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	var file descriptorpb.FileDescriptorProto
	if (proto.UnmarshalOptions{RecursionLimit: deepestFile}).Unmarshal(raw, &file) != nil || file.GetName() == "" {
		return nil
	}
	return &file
}

// nameInJSON gives fields a name in JSON. The compiler requires it and serialized files lack it. Nothing reads it.
func nameInJSON(fields []*descriptorpb.FieldDescriptorProto, messages []*descriptorpb.DescriptorProto) {
	for _, f := range fields {
		f.JsonName = f.Name
	}
	for _, m := range messages {
		nameInJSON(slices.Concat(m.GetField(), m.GetExtension()), m.GetNestedType())
	}
}

// parse parses a file.
func parse(path, text string) (parser.Result, error) {
	handler := reporter.NewHandler(nil)
	tree, err := parser.Parse(path, strings.NewReader(text), handler)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.ResultFromAST(tree, true, handler)
	if err != nil {
		return nil, err
	}
	parsed.FileDescriptorProto().Service = nil
	dropOptions(parsed.FileDescriptorProto().ProtoReflect())
	return parsed, nil
}

// missingError is the error of an import whose file is missing.
type missingError struct{ path string }

func (e *missingError) Error() string {
	return fmt.Sprintf("it imports %q, which is neither one of its references nor a file that comes with Protobuf: register the schema with a reference to each import", clip(e.path))
}

// dropOptions drops options whose names are extensions, from a message and everything in it.
func dropOptions(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil || f.IsMap():
		case f.Name() == "uninterpreted_option":
			kept := m.NewField(f)
			for i := range v.List().Len() {
				option, is := v.List().Get(i).Message().Interface().(*descriptorpb.UninterpretedOption)
				if !is || !isExtended(option) {
					kept.List().Append(v.List().Get(i))
				}
			}
			m.Set(f, kept)
		case f.IsList():
			for i := range v.List().Len() {
				dropOptions(v.List().Get(i).Message())
			}
		default:
			dropOptions(v.Message())
		}
		return true
	})
}

// isExtended reports whether a part of an option's name is an extension.
func isExtended(option *descriptorpb.UninterpretedOption) bool {
	for _, part := range option.GetName() {
		if part.GetIsExtension() {
			return true
		}
	}
	return false
}

// explain says what is wrong with a schema, with the line and the reference.
func (c *protoCompiler) explain(err error) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	err = cmp.Or(c.broken, err)
	var at reporter.ErrorWithPos
	errors.As(err, &at)
	switch missing := (*missingError)(nil); {
	case at == nil:
		return "it cannot be compiled: " + clip(strings.ReplaceAll(err.Error(), c.main, "the schema"))
	case errors.As(err, &missing):
		return fmt.Sprintf("%s: %v", c.place(at.GetPosition()), missing)
	}
	return fmt.Sprintf("it cannot be compiled: %s: %s", c.place(at.GetPosition()), clip(strings.ReplaceAll(at.Unwrap().Error(), c.main, "the schema")))
}

// place describes a line of the schema or of a reference.
func (c *protoCompiler) place(at ast.SourcePos) string {
	of := c.of[at.Filename]
	switch {
	case of.Subject == "" && at.Line == 0: // a serialized file
		return "the schema"
	case of.Subject == "":
		return fmt.Sprintf("line %d", at.Line)
	}
	return fmt.Sprintf("line %d of version %d of %q", at.Line, of.Version, clip(of.Subject))
}

// wellKnown are the files that Confluent's serializers include, by the names that imports use. Schemas are registered without
// references to them. The compiler has the files of google/protobuf. Options are left out of schemas, so files that define
// options contain only their messages here.
var wellKnown = map[string]string{
	"confluent/meta.proto": `syntax = "proto3"; package confluent;
		message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }`,
	"confluent/type/decimal.proto": `syntax = "proto3"; package confluent.type;
		message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }`,
	"google/type/calendar_period.proto": `syntax = "proto3"; package google.type;
		enum CalendarPeriod { CALENDAR_PERIOD_UNSPECIFIED = 0; DAY = 1; WEEK = 2; FORTNIGHT = 3; MONTH = 4; QUARTER = 5; HALF = 6; YEAR = 7; }`,
	"google/type/color.proto": `syntax = "proto3"; package google.type; import "google/protobuf/wrappers.proto";
		message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }`,
	"google/type/date.proto": `syntax = "proto3"; package google.type;
		message Date { int32 year = 1; int32 month = 2; int32 day = 3; }`,
	"google/type/datetime.proto": `syntax = "proto3"; package google.type; import "google/protobuf/duration.proto";
		message DateTime { int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5; int32 seconds = 6; int32 nanos = 7;
			oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } }
		message TimeZone { string id = 1; string version = 2; }`,
	"google/type/dayofweek.proto": `syntax = "proto3"; package google.type;
		enum DayOfWeek { DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1; TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4; FRIDAY = 5; SATURDAY = 6; SUNDAY = 7; }`,
	"google/type/decimal.proto": `syntax = "proto3"; package google.type;
		message Decimal { string value = 1; }`,
	"google/type/fraction.proto": `syntax = "proto3"; package google.type;
		message Fraction { int64 numerator = 1; int64 denominator = 2; }`,
	"google/type/interval.proto": `syntax = "proto3"; package google.type; import "google/protobuf/timestamp.proto";
		message Interval { google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }`,
	"google/type/latlng.proto": `syntax = "proto3"; package google.type;
		message LatLng { double latitude = 1; double longitude = 2; }`,
	"google/type/money.proto": `syntax = "proto3"; package google.type;
		message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }`,
	"google/type/month.proto": `syntax = "proto3"; package google.type;
		enum Month { MONTH_UNSPECIFIED = 0; JANUARY = 1; FEBRUARY = 2; MARCH = 3; APRIL = 4; MAY = 5; JUNE = 6; JULY = 7; AUGUST = 8; SEPTEMBER = 9;
			OCTOBER = 10; NOVEMBER = 11; DECEMBER = 12; }`,
	"google/type/quaternion.proto": `syntax = "proto3"; package google.type;
		message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }`,
	"google/type/timeofday.proto": `syntax = "proto3"; package google.type;
		message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }`,
}
