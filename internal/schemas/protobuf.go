package schemas

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
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

// maxStatements bounds the statements of a schema in Protobuf and its references, since a compiler needs thousands of bytes for each.
const maxStatements = 30_000

// deepestFile bounds how deep messages are nested in a serialized file. The compiler takes 32 levels in a text.
const deepestFile = 40

// compile compiles a schema in Protobuf to a set of descriptors, whose last file it is. It imports the sources by their names, and the
// files that come with Protobuf or with Confluent's serializers: nothing is read from disk.
//
// Options that the language does not have itself are left out, and so are services: neither changes what bytes mean, and the files that
// define such options often differ from those that the author had.
//
// The time that a question to the registry may take does not end a compilation: it asks nobody, and maxStatements bounds it.
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
		return "", &badError{fmt.Sprintf("it has more than %d statements with its references", maxStatements)}
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

// countStatements is how many statements a text has at most. Of a serialized file one in eight characters counts.
func countStatements(text string) int {
	if serialized(text) != nil {
		return len(text) / 8
	}
	return strings.Count(text, ";") + strings.Count(text, "{") + strings.Count(text, ",")
}

// collect adds a file to a set, behind those that it imports.
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

// protoCompiler has the files of one compilation.
type protoCompiler struct {
	main string            // the name of the schema itself
	of   map[string]source // by the name that imports have

	mu     sync.Mutex
	broken error // of the first file that could not be parsed, since the error of its import has not the place in the file
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

// serialized is a file whose descriptor is written in base64, as Confluent's clients for Python and others register schemas. Most
// registries make a text of it. Nil means that it is something else.
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

// nameInJSON gives fields a name in JSON, which the compiler wants and serialized files lack. Nothing reads it.
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

// missingError is the error of a file that is imported and not there.
type missingError struct{ path string }

func (e *missingError) Error() string {
	return fmt.Sprintf("it imports %q, which is neither a reference of it nor a file that comes with Protobuf: register the schema with a reference to each import", clip(e.path))
}

// dropOptions drops options whose names are extensions, in all that a message holds.
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

// explain says what is wrong with a schema, and in which line of which reference.
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

// place is a line of the schema or of a reference.
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
