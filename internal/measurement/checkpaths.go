package measurement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// SettingError says what is wrong with a setting of events. Text continues a sentence that begins with the setting.
type SettingError struct{ Setting, Value, Text string }

// Error returns the setting, its value and what is wrong with it.
func (e *SettingError) Error() string { return e.Setting + "=" + e.Value + ": " + e.Text }

// setPath is a path as it was set.
type setPath struct{ setting, text, path string } // path begins at the event's top

func (s setPath) String() string { return s.setting + "=" + s.text }

func (s setPath) wrong(format string, args ...any) *SettingError {
	return &SettingError{s.setting, s.text, fmt.Sprintf(format, args...)}
}

// settingErrors collects the errors of settings, at most one per setting.
type settingErrors []*SettingError

// report adds an error, unless it is nil or its setting has one.
func (w *settingErrors) report(err *SettingError) {
	if err != nil && !slices.ContainsFunc(*w, func(other *SettingError) bool { return other.Setting == err.Setting }) {
		*w = append(*w, err)
	}
}

func (w *settingErrors) add(setting, value, text string) {
	w.report(&SettingError{setting, value, text})
}

// overlaps reports the overlaps of a path with others.
func (w *settingErrors) overlaps(path setPath, others []setPath) {
	for _, other := range others {
		w.report(overlap(path, other))
	}
}

// CheckPaths returns why the paths of the options cannot be taken out of one event, with at most one error per setting. Nil means
// that they can.
func (o Options) CheckPaths() []*SettingError {
	o.MetaFrom = cmp.Or(o.MetaFrom, MetaFromValue)
	var wrong settingErrors
	if o.checkWritten(&wrong); len(wrong) > 0 {
		return wrong
	}
	leaves := o.leaves()
	for i := range leaves {
		wrong.report(o.checkPlace(&leaves[i]))
		wrong.overlaps(leaves[i], leaves[:i])
	}
	o.checkNames(&wrong)
	o.checkStages(&wrong)
	return wrong
}

// checkWritten checks each path by itself.
func (o *Options) checkWritten(wrong *settingErrors) {
	written := func(setting, text, path string) {
		// The elements of a list are events of their own, in which a path through the list leads nowhere, unless each has an object with
		// the name of the list. Paths of other settings make dead letters.
		if advice := o.elementAdvice(o.absolute(path)); ofMissing[setting] && advice != "" {
			wrong.add(setting, text, "leads nowhere"+advice)
			return
		}
		if o.Root != "" && path != "" {
			if path = strings.TrimPrefix(path, "/"); path == "" {
				path = "." // leads nowhere
			}
		}
		err := CheckPath(path)
		if isOfRecord(path) {
			if err = checkSource(path); err == nil && !ofRecord[setting] {
				err = errors.New("is a path to the record's key or headers, which only EVENT_TIME_FIELD, EVENT_META_FIELD and EVENT_META_FIELDS can use")
			}
			if s, _ := splitSource(path); err == nil && setting == settingTime && s == fromKey {
				err = errors.New("takes the time from the record's key, which is not possible: name a field, or a header (header:name)")
			}
		}
		if err == nil && setting == settingRoot && path != text {
			err = errors.New("always begins at the top of the record: write the path without the slash")
		}
		if err == nil && strings.Contains(path, "|") && setting != settingTime && setting != settingValue {
			err = errors.New("has a |, which separates paths only in EVENT_TIME_FIELD and EVENT_FIELD_VALUE: name one path" + severalNames[setting])
		}
		if several := severalPaths[setting]; err != nil && strings.Contains(path, ",") && several != "" {
			err = errors.New("must name one field, but has a comma: " + several)
		}
		if err != nil {
			wrong.add(setting, text, err.Error())
		}
	}
	if o.TimeField != "" {
		for path := range strings.SplitSeq(o.TimeField, "|") {
			written(settingTime, o.TimeField, orNowhere(strings.TrimSpace(path)))
		}
	}
	written(settingRoot, o.Root, o.Root)
	written(settingFields, o.Fields, o.Fields)
	if o.Root != "" && strings.HasPrefix(o.Fields, "/") {
		wrong.add(settingFields, o.Fields, "must lie in EVENT_ROOT="+o.Root+": write the path relative to EVENT_ROOT, without the slash")
	}
	if len(o.MetaFields) == 0 && o.MetaFrom == MetaFromValue {
		written(settingMeta, o.MetaField, o.MetaField)
	}
	for _, text := range o.MetaFields {
		_, path := splitPart(text)
		if path == "" {
			wrong.add(settingMetas, text, "names no path: write name=path, or a path")
		}
		written(settingMetas, text, path)
	}
	for _, path := range o.Drop {
		if path == "" {
			wrong.add(settingDrop, path, "has an empty path")
		}
		written(settingDrop, path, path)
	}
	o.writtenStages(written)
}

// ofMissing holds the settings whose paths may meet nothing in all events without a dead letter.
var ofMissing = map[string]bool{settingSkip: true, settingParse: true, settingDrop: true, settingRename: true}

// elementAdvice continues a sentence about a path that leads nowhere, if the path leads through a list of EVENT_LIST. The path
// begins at the event's top. If EVENT_FIELDS leads through the list, the elements have an object with its name.
func (o *Options) elementAdvice(path string) string {
	for _, list := range o.List {
		list = o.absolute(list)
		isInElement := isPathPrefix(list, o.Root) || o.Fields != "" && isPathPrefix(list, o.absolute(o.Fields))
		if below, ok := strings.CutPrefix(path, list+"."); ok && !isInElement {
			if o.Root != "" && !isPathPrefix(o.Root, list) {
				below = "/" + below
			}
			return fmt.Sprintf(" (it leads through the list %s of EVENT_LIST, whose elements are events of their own: begin the path in the element, as in %s)", list, below)
		}
	}
	return ""
}

// skipAdvice is the part of an error that advises to skip events without a value at a path, if such a condition
// skips no other events. It is empty if EVENT_RENAME gives a name in the path, because EVENT_SKIP sees the events before. It is also
// empty if the path is one of EVENT_LIST, because such a condition is on the list.
func (o *Options) skipAdvice(path string) string {
	if slices.ContainsFunc(o.List, func(list string) bool { return isPathPrefix(o.absolute(list), o.absolute(path)) }) {
		return ""
	}
	for _, text := range o.Rename {
		if _, to := splitRename(text); slices.Contains(strings.Split(strings.TrimPrefix(path, "/"), "."), to) {
			return ""
		}
	}
	return ", skip such events with EVENT_SKIP='!" + path + "'"
}

// The settings of paths.
const (
	settingTime   = "EVENT_TIME_FIELD"
	settingMeta   = "EVENT_META_FIELD"
	settingMetas  = "EVENT_META_FIELDS"
	settingRoot   = "EVENT_ROOT"
	settingFields = "EVENT_FIELDS"
	settingDrop   = "EVENT_DROP"
	settingList   = "EVENT_LIST"
	settingParse  = "EVENT_PARSE"
	settingSkip   = "EVENT_SKIP"
	settingName   = "EVENT_FIELD_NAME"
	settingValue  = "EVENT_FIELD_VALUE"
	settingRename = "EVENT_RENAME"
)

// ofRecord holds the settings whose paths may lead to the record's key or headers.
var ofRecord = map[string]bool{settingTime: true, settingMeta: true, settingMetas: true}

// severalPaths says, for settings with one path, what to do about several.
var severalPaths = map[string]string{
	settingTime:   "if the time is at different paths in different events, write | between the paths, such as ts|timestamp",
	settingMeta:   "for a meta of several fields set EVENT_META_FIELDS instead",
	settingRoot:   "the event must be at the same path in all records",
	settingFields: "name the object that contains the fields; EVENT_DROP leaves some of them out",
}

// severalNames says what to do about a field with several names, for the settings that take no | between them.
var severalNames = map[string]string{
	settingMeta: renameAdvice, settingMetas: renameAdvice, settingFields: renameAdvice, settingDrop: "; write a comma between several",
	settingSkip: "; write a comma between several conditions", settingParse: "; write a comma between several", settingList: "; write a comma between several",
	settingRename: ", and another entry for each other name",
}

const renameAdvice = ". If the field has different names in different events, EVENT_RENAME gives it one name"

// leaves returns the paths to the values that are taken out of an event.
func (o *Options) leaves() (list []setPath) {
	for _, path := range o.times() {
		if !isOfRecord(path) {
			list = append(list, setPath{settingTime, o.TimeField, path})
		}
	}
	if o.MetaFrom == MetaFromValue {
		setting := settingMeta
		if len(o.MetaFields) > 0 {
			setting = settingMetas
		}
		for _, part := range o.metaParts() {
			if part.source == fromEvent {
				list = append(list, setPath{setting, part.text, part.path})
			}
		}
	}
	for _, path := range o.Drop {
		list = append(list, setPath{settingDrop, path, o.absolute(path)})
	}
	return list
}

// checkPlace refuses a path to an object that holds the stored object. It also refuses to drop a field outside of the stored
// object.
func (o *Options) checkPlace(leaf *setPath) *SettingError {
	stored := setPath{settingRoot, o.Root, o.Root}
	if o.Fields != "" {
		stored = setPath{settingFields, o.Fields, o.absolute(o.Fields)}
	}
	switch {
	case stored.path == "":
		return nil
	case isPathPrefix(leaf.path, stored.path):
		return leaf.wrong("contains %s, the object that is stored: name a field inside that object or next to it", stored)
	case leaf.setting == settingDrop && !isPathPrefix(stored.path, leaf.path):
		return leaf.wrong("lies outside %s, so it is not stored anyway: remove this path, or name a path inside", stored)
	}
	return nil
}

// overlap refuses two equal paths, and a path that leads through the other.
func overlap(a, b setPath) *SettingError {
	switch {
	case a.path == b.path && a.setting != b.setting:
		return a.wrong("is the same field as %s: use each field for one setting only", b.setting)
	case a.path == b.path:
		return a.wrong("names a field that is already named: name each field once")
	case isPathPrefix(b.path, a.path):
		return a.wrong("lies inside %s, which takes the whole object: name the parts that you want instead", b)
	case isPathPrefix(a.path, b.path):
		return a.wrong("contains %s, and takes the whole object: name the parts that you want instead", b)
	}
	return nil
}

// checkNames checks the names of the parts of meta.
func (o *Options) checkNames(wrong *settingErrors) {
	if len(o.MetaFields) == 0 {
		return
	}
	named := map[string]metaPart{}
	for _, part := range o.metaParts() {
		if !validName(part.name) {
			wrong.add(settingMetas, part.text, fmt.Sprintf("gives a part of meta the name %q: "+
				"a name must not be empty, begin with $, or contain a dot or NUL", part.name))
		}
		if other, twice := named[part.name]; twice {
			_, path := splitPart(part.text)
			wrong.add(settingMetas, part.text, fmt.Sprintf("has the same name (%s) in meta as %s: "+
				"give one of them another name, such as other=%s", part.name, other.text, path))
		}
		named[part.name] = part
	}
}

// CheckPath returns why a dotted path leads to no field. Nil means that it may lead to one, or that the path is empty. The
// error's text continues a sentence that begins with the path.
func CheckPath(path string) error {
	if path == "" {
		return nil
	}
	if strings.Contains(path, ",") {
		return errors.New("must name one field, but has a comma: give one path")
	}
	for name := range strings.SplitSeq(path, ".") {
		switch {
		case name == "$":
			return errors.New("not a dotted path: it begins with $, as in JSONPath. Write the names only, such as payload.after")
		case name == "" || strings.ContainsRune(name, 0):
			return errors.New("not a dotted path: one of its names is empty or contains a NUL")
		case name == "*":
			return errors.New("not a dotted path: the wildcard * is not supported. Write the name of the field")
		case strings.HasSuffix(name, "[]") || strings.HasSuffix(name, "[*]"):
			return errors.New("leads into an array, but paths lead through objects only: split the list with EVENT_LIST, and begin the path at its elements")
		}
	}
	return nil
}

// isPathPrefix reports whether a is b or leads to an object that holds b.
func isPathPrefix(a, b string) bool {
	return strings.HasPrefix(b+".", a+".")
}

// writtenStages calls written with each path of the stages, to check the path by itself.
func (o *Options) writtenStages(written func(setting, text, path string)) {
	for _, path := range o.Parse {
		written(settingParse, path, orNowhere(path))
	}
	for _, path := range o.List {
		written(settingList, path, orNowhere(path))
	}
	for _, text := range o.Skip {
		if c, err := parseCondition(text); err == nil {
			written(settingSkip, text, c.path)
		}
	}
	for _, text := range o.Rename {
		from, _ := splitRename(text)
		written(settingRename, text, orNowhere(from))
	}
	if o.FieldName != "" {
		written(settingName, o.FieldName, o.FieldName)
	}
	if o.FieldValue != "" {
		for path := range strings.SplitSeq(o.FieldValue, "|") {
			written(settingValue, o.FieldValue, orNowhere(strings.TrimSpace(path)))
		}
	}
}

// orNowhere replaces an empty path by a path that is refused.
func orNowhere(path string) string {
	if path == "" {
		return "."
	}
	return path
}

// checkStages reports why the stages cannot do what they are told.
func (o *Options) checkStages(wrong *settingErrors) {
	for _, text := range o.Skip {
		if _, err := parseCondition(text); err != nil {
			wrong.add(settingSkip, text, err.Error())
		}
	}
	for _, text := range o.Rename {
		if err := checkRename(text); err != nil {
			wrong.add(settingRename, text, err.Error())
		}
	}
	switch {
	case o.FieldName != "" && o.FieldValue == "":
		wrong.add(settingName, o.FieldName, "leads to the name of a value, but EVENT_FIELD_VALUE is not set: set it to the path of the value")
	case o.FieldName == "" && o.FieldValue != "":
		wrong.add(settingValue, o.FieldValue, "leads to a value, but EVENT_FIELD_NAME is not set: set it to the path of the value's name")
	}
	o.checkLists(wrong)
	o.checkRenames(wrong)
}

// checkLists refuses lists in lists. It also refuses a root whose path leads through a list, because a root begins at the top of
// each element.
func (o *Options) checkLists(wrong *settingErrors) {
	for i, text := range o.List {
		list := setPath{settingList, text, o.absolute(text)}
		for _, other := range o.List[:i] {
			a, b := list.path, o.absolute(other)
			switch {
			case a == b:
				wrong.report(list.wrong("names a list that is already named: name each list once"))
			case isPathPrefix(a, b), isPathPrefix(b, a):
				wrong.report(list.wrong("this list and the list %s are nested, but a list inside a list cannot be split: name only one of them", other))
			}
		}
		if o.Root != "" && isPathPrefix(list.path, o.Root) {
			wrong.report(list.wrong("contains EVENT_ROOT=%s: EVENT_ROOT begins at the top of each element, so remove %s from its path", o.Root, list.path))
		}
	}
}

// checkRenames refuses two equal paths, and a path that leads through the other. A field gets a new name only once.
func (o *Options) checkRenames(wrong *settingErrors) {
	if o.FieldName != "" && o.FieldValue != "" {
		named := []setPath{{settingName, o.FieldName, o.absolute(o.FieldName)}}
		for _, path := range o.values() {
			value := setPath{settingValue, o.FieldValue, path}
			wrong.overlaps(value, named)
			named = append(named, value)
		}
	}
	var renamed []setPath
	for _, text := range o.Rename {
		from, _ := splitRename(text)
		path := setPath{settingRename, text, o.absolute(from)}
		wrong.overlaps(path, renamed)
		renamed = append(renamed, path)
	}
}

// ShapePath is a path of EVENT_SKIP, EVENT_DROP or EVENT_RENAME. An event without a value there makes no dead letter.
type ShapePath struct {
	Setting, Text string
	Name          string // the path's last name
}

// ShapePaths returns the paths to fields that every producer sends, as far as the options tell. Texts of EVENT_PARSE, the names of
// EVENT_FIELD_NAME and those that EVENT_RENAME gives make further fields.
func (o Options) ShapePaths() (list []ShapePath) {
	made := map[string]bool{}
	add := func(setting, text, path string) {
		if name := strings.TrimPrefix(path[strings.LastIndexByte(path, '.')+1:], "/"); !made[name] {
			list = append(list, ShapePath{setting, text, name})
		}
	}
	if len(o.Parse) > 0 {
		return nil
	}
	for _, text := range o.Skip {
		if c, err := parseCondition(text); err == nil {
			add(settingSkip, text, c.path)
		}
	}
	if o.FieldName != "" {
		return list
	}
	for _, text := range o.Rename {
		from, _ := splitRename(text)
		add(settingRename, text, from)
	}
	for _, text := range o.Rename {
		_, to := splitRename(text)
		made[to] = true
	}
	for _, path := range o.Drop {
		add(settingDrop, path, path)
	}
	return list
}
