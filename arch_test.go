package waterwheel_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// module is the path of this module, as go.mod has it.
var module = func() string {
	info, _ := debug.ReadBuildInfo() // every test binary has build information
	return info.Main.Path
}()

// mayImport lists, for each package, the packages of this module that it may import. Tests are not included. There is no other
// such table. The comment of a row says what the package contains.
var mayImport = map[string][]string{
	"":                  {}, // tests of the whole module
	"compose":           {}, // a deployment for trying waterwheel out
	"internal/leak":     {}, // goroutines that tests leave behind
	"internal/logtest":  {}, // logs that tests read while they are written
	"internal/segments": {}, // a model of how segments are compacted

	"internal/metrics":   {},                                                   // the table of the metrics
	"deploy":             {},                                                   // files for operating the consumer
	"deploy/generate":    {"internal/metrics", "internal/dashboard", "config"}, // files made from tables in Go
	"internal/dashboard": {},                                                   // the panels of the dashboard

	"internal/words":  {}, // counts, misspelt words and lengths of time in text
	"internal/bitmap": {}, // sets of numbers

	"internal/record":              {},                                                                                                       // types about Kafka that several packages share
	"internal/claim":               {"internal/record", "internal/timeseries"},                                                               // types and rules of owning a partition
	"config":                       {"internal/record", "internal/timeseries", "internal/rollup", "internal/measurement", "internal/words"},  // settings
	"internal/timeseries":          {"internal/timeseries/rawbson", "internal/bitmap"},                                                       // the format of buckets
	"internal/timeseries/rawbson":  {},                                                                                                       // BSON in place
	"internal/measurement":         {"internal/timeseries", "internal/timeseries/rawbson", "internal/record", "internal/words"},              // conversion of bytes to measurements
	"internal/schemas":             {"internal/measurement"},                                                                                 // schemas of a registry
	"internal/rollup":              {"internal/timeseries", "internal/timeseries/rawbson", "internal/words"},                                 // totals by window
	"bucketer":                     {"internal/timeseries", "internal/timeseries/rawbson", "internal/measurement", "internal/record"},        // the bucket catalog
	"internal/kafka":               {"internal/kafka/recordbatch", "internal/kafka/wire", "internal/record"},                                 // the client of Kafka
	"internal/kafka/recordbatch":   {"internal/record"},                                                                                      // records from the answers of brokers
	"internal/kafka/wire":          {},                                                                                                       // the encoding of requests and answers
	"internal/kafka/group":         {"internal/kafka", "internal/kafka/wire", "internal/record"},                                             // the membership and its lease
	"dlq":                          {"internal/bitmap", "internal/kafka", "internal/kafka/recordbatch", "internal/record", "internal/words"}, // dead letters
	"dlq/redrive":                  {"dlq", "internal/kafka", "internal/kafka/recordbatch", "internal/kafka/group", "internal/record"},       // sending dead letters back
	"internal/mongodb":             {"internal/timeseries", "internal/claim", "internal/record"},                                             // the client of MongoDB: connections, the guard, codes
	"internal/mongodb/mongodbtest": {"internal/mongodb"},                                                                                     // servers for tests
	"internal/collection":          {"internal/mongodb", "internal/timeseries", "internal/rollup", "internal/claim", "internal/words"},       // setting time series up
	"sink":                         {"internal/mongodb", "internal/collection", "internal/timeseries", "internal/rollup", "bucketer", "internal/claim", "internal/record", "internal/words"},
	"pipeline":                     {"internal/timeseries", "internal/measurement", "bucketer", "internal/claim", "internal/record"},
	"internal/keeper":              {"internal/rollup", "internal/timeseries", "internal/claim", "internal/record", "internal/mongodb", "sink"}, // keeping rollups
	"internal/verify":              {"internal/bitmap", "internal/timeseries", "internal/measurement", "internal/claim", "internal/record", "internal/words"},
	"reader":                       {"internal/rollup", "internal/timeseries", "internal/timeseries/rawbson", "internal/words"}, // stored measurements
	"cmd/consumer": { // the process of run
		"config", "internal/cli", "internal/connect", "internal/status", "internal/check", "internal/record", "internal/claim", "internal/timeseries",
		"internal/rollup", "internal/keeper", "internal/kafka", "internal/kafka/group", "dlq", "internal/mongodb", "internal/collection", "sink", "pipeline",
	},
	"internal/cli": { // the commands
		"config", "internal/connect", "internal/cli/text", "internal/cli/rows", "internal/cli/plot", "internal/status", "internal/serve", "internal/web",
		"internal/record", "internal/claim", "internal/timeseries", "internal/measurement", "internal/kafka", "internal/kafka/group", "internal/mongodb", "internal/collection", "sink", "dlq", "dlq/redrive",
		"reader", "internal/check", "internal/verify", "internal/words", "internal/rollup", "internal/keeper",
	},
	// The conversion of settings to options, and the opening of Kafka and MongoDB.
	"internal/connect":  {"config", "internal/timeseries", "internal/claim", "internal/record", "internal/rollup", "internal/measurement", "bucketer", "internal/kafka", "internal/kafka/recordbatch", "internal/kafka/group", "internal/schemas", "internal/mongodb", "internal/collection", "sink", "dlq", "pipeline"},
	"internal/cli/text": {},
	"internal/web":      {},                    // servers of HTTP
	"internal/cli/rows": {"internal/cli/text"}, // measurements as tables, CSV, JSON
	"internal/cli/plot": {"internal/words"},    // measurements as pictures
	// The findings of waterwheel check.
	"internal/check":  {"internal/claim", "internal/record", "internal/timeseries", "internal/measurement", "bucketer", "internal/kafka", "internal/kafka/group", "internal/kafka/recordbatch", "dlq", "internal/mongodb", "internal/collection", "sink", "reader", "internal/words"},
	"internal/serve":  {"internal/web", "internal/cli/rows", "internal/rollup", "internal/words", "internal/timeseries", "reader"}, // measurements over HTTP
	"internal/status": {"internal/cli/text", "internal/web", "internal/words", "internal/record", "internal/kafka", "internal/kafka/group", "internal/mongodb", "pipeline", "docs"},
	"docs":            {}, // the documents, for the status page
}

// purePackages have no context, clock, logger, goroutine or lock, and do no input or output.
var purePackages = []string{"internal/words", "internal/bitmap", "internal/record", "internal/claim", "internal/timeseries", "internal/timeseries/rawbson", "internal/measurement", "internal/rollup", "bucketer"}

// pureModules are the modules that pure packages may import in addition to the standard library.
var pureModules = []string{
	"go.mongodb.org/mongo-driver/v2/bson", "go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore",
	"github.com/cespare/xxhash/v2", "github.com/go-json-experiment/json/jsontext", "github.com/klauspost/compress", "google.golang.org/protobuf",
	"github.com/twmb/avro",
}

// impure lists packages of the standard library that a pure package must not import.
var impure = []string{"context", "log", "os", "net", "sync", "math/rand", "runtime"}

// mayDrive lists the packages that may import more of MongoDB's driver than BSON. The values are packages of the driver, each
// with the packages below it.
var mayDrive = map[string][]string{
	"internal/mongodb":             {driver + "/mongo", driver + "/event", driver + "/x/mongo/driver"},
	"internal/mongodb/mongodbtest": {driver + "/mongo"},
	"internal/collection":          {driver + "/mongo"},                                  // for commands that Collection does not have
	"reader":                       {driver + "/mongo", driver + "/x/mongo/driver/auth"}, // its callers pass a database of the driver
	"config":                       {driver + "/x/mongo/driver/connstring"},              // it checks a URI with the driver's parser
}

// driver is the module of MongoDB's driver.
const driver = "go.mongodb.org/mongo-driver/v2"

type goPackage struct {
	ImportPath, Dir  string
	Imports, GoFiles []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Dir,Imports,GoFiles", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// folder returns an import path without the path of this module. False means that the package belongs to another module.
func folder(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// within reports whether an import path is one of the paths, or is below one of them.
func within(importPath string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return importPath == p || strings.HasPrefix(importPath, p+"/") })
}

func TestDependenciesPointOneWay(t *testing.T) {
	without := maps.Clone(mayImport)
	defer func() {
		for name := range without {
			t.Errorf("the table has a row for %q, which is no package", name)
		}
	}()
	for _, p := range listPackages(t) {
		name, _ := folder(p.ImportPath)
		allowed, known := mayImport[name]
		delete(without, name)
		if !known {
			t.Errorf("package %q is not in the table: say what it may import", name)
			continue
		}
		for _, imported := range p.Imports {
			if dependency, ours := folder(imported); ours && !slices.Contains(allowed, dependency) {
				t.Errorf("%s imports %s: it may import only %v of this module", name, dependency, allowed)
			}
		}
	}
}

// TestOnlyTheClientDrives checks this because the guard would not see commands that bypass the client.
func TestOnlyTheClientDrives(t *testing.T) {
	for _, p := range listPackages(t) {
		name, _ := folder(p.ImportPath)
		allowed := append([]string{driver + "/bson", driver + "/x/bsonx/bsoncore"}, mayDrive[name]...)
		for _, imported := range p.Imports {
			if within(imported, []string{driver}) && !within(imported, allowed) {
				t.Errorf("%s imports %s: MongoDB is reached through internal/mongodb", name, imported)
			}
		}
	}
}

func TestPurePackagesArePure(t *testing.T) {
	for _, p := range listPackages(t) {
		name, _ := folder(p.ImportPath)
		if !slices.Contains(purePackages, name) {
			continue
		}
		for _, imported := range p.Imports {
			_, ours := folder(imported)
			standard := !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".")
			switch {
			case ours:
			case standard && within(imported, impure):
				t.Errorf("%s imports %s, which a pure package has no use for", name, imported)
			case !standard && !within(imported, pureModules):
				t.Errorf("%s imports %s: pure packages import %v at most", name, imported, pureModules)
			}
		}
	}
}

func TestExportedNamesAreDocumented(t *testing.T) {
	for _, p := range listPackages(t) {
		files := token.NewFileSet()
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		docs, err := doc.NewFromFiles(files, parsed, p.ImportPath)
		if err != nil {
			t.Fatal(err)
		}
		if docs.Doc == "" {
			t.Errorf("package %s has no comment", p.ImportPath)
		}
		for _, name := range undocumented(docs) {
			t.Errorf("%s.%s has no comment", p.ImportPath, name)
		}
	}
}

// undocumented lists the exported types, functions and methods without a comment.
func undocumented(p *doc.Package) (names []string) {
	functions := func(prefix string, list []*doc.Func) {
		for _, f := range list {
			if f.Doc == "" && ast.IsExported(f.Name) {
				names = append(names, prefix+f.Name)
			}
		}
	}
	functions("", p.Funcs)
	for _, t := range p.Types {
		if t.Doc == "" && ast.IsExported(t.Name) {
			names = append(names, t.Name)
		}
		functions("", t.Funcs)
		functions(t.Name+".", t.Methods)
	}
	return names
}
