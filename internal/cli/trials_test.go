package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/config"
	"waterwheel/internal/check"
	"waterwheel/internal/connect"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries/rawbson"
)

var updateTrials = flag.Bool("update-trials", false, "write into testdata/trials what became of the records: look at each difference")

// trialRecord is a record in a trial.
type trialRecord struct {
	Key         *string           `json:"key"`
	KeyBase64   []byte            `json:"key_base64"`
	Value       *string           `json:"value"`
	ValueBase64 []byte            `json:"value_base64"`
	Headers     map[string]string `json:"headers"`
	Timestamp   int64             `json:"timestamp"`
}

// trialAt is the default timestamp of records, 2026-11-24T00:00:00Z.
const trialAt = 1_795_478_400_000

// record returns the record as Kafka delivers it.
func (r *trialRecord) record(offset int) record.Record {
	of := record.Record{Offset: int64(offset), Timestamp: trialAt, Key: r.KeyBase64, Value: r.ValueBase64}
	if r.Timestamp != 0 {
		of.Timestamp = r.Timestamp
	}
	if r.Key != nil {
		of.Key = []byte(*r.Key)
	}
	if r.Value != nil {
		of.Value = []byte(*r.Value)
	}
	var headers []record.Header
	for name, value := range r.Headers {
		headers = append(headers, record.Header{Key: name, Value: []byte(value)})
	}
	of.Headers = record.EncodeHeaders(headers)
	return of
}

// line returns the record as kcat -J prints it.
func (r *trialRecord) line(t *testing.T, offset int) string {
	t.Helper()
	of := r.record(offset)
	line := map[string]any{"topic": "t", "partition": 0, "offset": offset, "ts": of.Timestamp, "tstype": "create", "payload": nil, "key": nil}
	if of.Value != nil {
		line["payload"] = string(of.Value)
	}
	if of.Key != nil {
		line["key"] = string(of.Key)
	}
	if len(r.Headers) > 0 {
		var list []string
		for name, value := range r.Headers {
			list = append(list, name, value)
		}
		line["headers"] = list
	}
	text, err := json.Marshal(line)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTrials runs the files of testdata/trials. Each is a case of a user, with records as they were sent, some settings, and the
// right results. A line "with" has settings for some of the records, and the lines after it have the result of each. A line
// "check" has the proposal for some of them without settings.
func TestTrials(t *testing.T) {
	paths, err := filepath.Glob("testdata/trials/*.trial")
	if err != nil || len(paths) < 15 {
		t.Fatalf("%d trials, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".trial"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := runTrial(t, string(text))
			if *updateTrials {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got != string(text) {
				t.Errorf("%s is not what becomes of its records, which is\n%s", path, got)
			}
		})
	}
}

// heldElsewhere names the tests that hold the right results of trials without records: cases about topics, groups, logins and
// settings. A word with a colon is the folder of the tests after it.
var heldElsewhere = map[string]string{
	"28-compacted-topic": `internal/kafka/recordbatch: TestDecodeMovesPastWhatCompactionLeft TestMarkersThatCompactionEmptiedArePassedOver
		internal/measurement: TestTombstoneIsNothing  internal/status: TestEverySignShowsTheSameLag
		internal/verify: TestRecordsThatWereCompactedAwayAreNotUnknown  internal/cli: TestVerifyCountsWhatIsNotWrong
		cmd/consumer: TestVerifyAfterLogCompaction`,
	"29-transactions-and-lag": `internal/kafka/recordbatch: TestDecodeDropsMarkers TestDecodeDropsAbortedTransactionsInAnyOrder
		internal/kafka: TestRealAbortedTransactionsAreLeftOut TestRealOpenTransactionIsKnown
		internal/status: TestOpenTransactionIsSeen TestOpenTransactionIsDoubtful
		e2e: TestOpenTransactionIsSeen TestStoresWhatJavaProduces TestKafkaShowsOurGroup`,
	"31-two-with-one-instance-id": `internal/kafka/group: TestFencedInstanceStopsTheProgram TestRealStaticRestartKeepsTheGeneration
		e2e: TestTwoWithOneInstanceID  e2e/security: TestBrokersRestartIsOutlived`,
	"32-managed-kafka-login": `config: TestValuesAsTheyAreTyped TestRefusals TestSettingsOfOtherClientsAreNotTakenSilently
		internal/kafka: TestOpenWithTLS TestOpenWithSASL TestABrokerThatHangsUpAtOnceIsAway TestOpenNamesBrokersThatCannotBeReached
		TestOpenNamesTheControllersPort  e2e/security: TestTokensWork`,
	"34-topics-by-pattern": `config: TestTopicsThatMatch TestTopicsInThePlaceOfPatterns TestSettingsThatAreFine TestAllProblemsAreReportedAtOnce
		internal/connect: TestTopicsForPatterns  cmd/consumer: TestTopicsThatComeLater
		e2e: TestTopicsThatMatchAPattern TestTopicsInOneCollection TestRefusesUnreachableServers`,
	"35-record-stored-next-to-a-bad-batch": `e2e: TestStoresEveryMeasurementOnce TestPoisonUnderLoad TestLettersGoBackOnceTheirCauseIsGone
		cmd/consumer: TestEachReasonIsReadBack  dlq: TestLetterIsCutToWhatItsTopicTakes
		dlq/redrive: TestRedriveTwiceFindsNothingTheSecondTime TestDryRunCountsWhatWouldComeBack
		e2e/hostile: TestDeadLetterTopicOfShortLetters  internal/measurement: TestFirstTimeThatIsThereCounts  config: TestRefusals`,
	"36-quoted-and-odd-environment": `config: TestRefusals TestSettingsThatAreFine TestAllProblemsAreReportedAtOnce TestValuesFromFiles TestURIDatabase
		TestNoPartOfAPasswordIsShown TestOnlyMisspeltSettingsAreRefused TestSpacesAroundValuesAreWarnedAbout
		internal/cli: TestWrongSettingsAreAllNamed  e2e: TestRefusesBadSettings`,
}

// TestTrialsHeldElsewhere checks that the named tests exist.
func TestTrialsHeldElsewhere(t *testing.T) {
	for trial, tests := range heldElsewhere {
		dir, source := "", ""
		for word := range strings.FieldsSeq(tests) {
			if folder, is := strings.CutSuffix(word, ":"); is {
				dir, source = folder, ""
				paths, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
				if err != nil || len(paths) == 0 {
					t.Errorf("%s: %s has no tests, %v", trial, dir, err)
				}
				for _, path := range paths {
					text, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					source += string(text)
				}
			} else if !strings.Contains(source, "\nfunc "+word+"(t *testing.T) {") {
				t.Errorf("%s: %q has no %s", trial, dir, word)
			}
		}
	}
}

// runTrial returns the text of a trial with the actual results of its records.
func runTrial(t *testing.T, text string) string {
	t.Helper()
	var records []trialRecord
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "  ") {
			continue // the run before has written it
		}
		out.WriteString(line)
		head, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		kind, which, _ := strings.Cut(head, " ")
		switch {
		case kind == "with":
			for _, result := range trialWith(t, records, which, strings.TrimSpace(rest)) {
				fmt.Fprintf(&out, "  %s\n", result)
			}
		case kind == "check":
			fmt.Fprintf(&out, "  %s\n", trialCheck(t, records, which))
		case head != "" && head[0] <= '9':
			var r trialRecord
			if err := json.Unmarshal([]byte(rest), &r); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			records = append(records, r)
		}
	}
	return out.String()
}

// chosen returns the numbers of the records that a line names.
func chosen(t *testing.T, which string, n int) (list []int) {
	t.Helper()
	if which == "all" {
		for i := range n {
			list = append(list, i)
		}
		return list
	}
	for text := range strings.SplitSeq(which, ",") {
		i, err := strconv.Atoi(text)
		if err != nil || i < 1 || i > n {
			t.Fatalf("%q names no record of %d", which, n)
		}
		list = append(list, i-1)
	}
	return list
}

// trialWith returns the results of some records with some settings.
func trialWith(t *testing.T, records []trialRecord, which, settings string) (list []string) {
	t.Helper()
	env := map[string]string{}
	for setting := range strings.FieldsSeq(settings) {
		name, value, _ := strings.Cut(setting, "=")
		env[name] = value
	}
	c, err := config.LoadEvents(func(name string) (string, bool) { value, ok := env[name]; return value, ok }, nil)
	if err != nil {
		t.Fatalf("%s: %v", settings, err)
	}
	decoder, _, err := connect.NewDecoder(c)
	if err != nil {
		t.Fatalf("%s: %v", settings, err)
	}
	for _, i := range chosen(t, which, len(records)) {
		for _, fate := range trialFates(t, decoder, records[i].record(i)) {
			list = append(list, fmt.Sprintf("%d %s", i+1, fate))
		}
	}
	return list
}

// trialFates returns the results of a record's events.
func trialFates(t *testing.T, decoder *measurement.Decoder, r record.Record) (list []string) {
	results, err := decoder.Decode(r)
	switch {
	case err != nil:
		return []string{"letter " + err.Error()}
	case len(results) == 0:
		list = append(list, "skipped")
	}
	for i := range results {
		part := ""
		if m := &results[i].Measurement; len(results) > 1 || m.Position.Part > 0 {
			part = fmt.Sprintf("part %d ", m.Position.Part)
		}
		if wrong := results[i].Err; wrong != nil {
			list = append(list, part+"letter "+wrong.Error())
			continue
		}
		list = append(list, part+"stored "+trialMeasurement(t, &results[i].Measurement))
	}
	return list
}

// trialMeasurement returns a measurement as readers see it, with its types.
func trialMeasurement(t *testing.T, m *measurement.Measurement) string {
	raw := rawbson.AppendDate(make([]byte, 4), "time", m.Time)
	if m.Meta.Type != 0 {
		raw = rawbson.AppendElement(raw, m.Meta.Type, []byte("meta"), m.Meta.Value)
	}
	raw = rawbson.EndDocument(append(raw, m.Elements...), 0)
	text, err := bson.MarshalExtJSON(bson.Raw(raw), false, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// trialCheck returns the proposal for some records.
func trialCheck(t *testing.T, records []trialRecord, which string) string {
	t.Helper()
	var lines []string
	for _, i := range chosen(t, which, len(records)) {
		lines = append(lines, records[i].line(t, i))
	}
	code, stdout, stderr := feed(t, nil, strings.Join(lines, "\n")+"\n", "check", "--sample", "-", "--output", "json")
	var view checkView
	if err := json.Unmarshal([]byte(stdout), &view); err != nil || len(view.Samples) != 1 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	of := view.Samples[0]
	switch {
	case of.Proposal != nil:
		text := "proposes " + of.Proposal.Line()
		if len(of.Proposal.Loses) > 0 {
			text += "\n  loses " + strings.Join(of.Proposal.Loses, "\n  loses ")
		}
		return text
	case of.Question != "":
		text := "asks: " + of.Question
		for _, c := range of.Choices {
			text += "\n  choice " + c.Line()
		}
		return text
	case of.Unproposed != "":
		return "says " + of.Unproposed
	}
	if i := slices.IndexFunc(of.Bad, func(check.Bad) bool { return true }); i >= 0 {
		return fmt.Sprintf("fits but for %d: %s", of.Bad[i].Count, of.Bad[i].Example)
	}
	return "fits"
}
