package measurement

import "strings"

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

// checkStages returns why the stages cannot do what they are told, with at most one error per setting.
func (o *Options) checkStages() (wrong []*SettingError) {
	for _, text := range o.Skip {
		if _, err := parseCondition(text); err != nil {
			wrong = append(wrong, &SettingError{settingSkip, text, err.Error()})
		}
	}
	for _, text := range o.Rename {
		if err := checkRename(text); err != nil {
			wrong = append(wrong, &SettingError{settingRename, text, err.Error()})
		}
	}
	switch {
	case o.FieldName != "" && o.FieldValue == "":
		wrong = append(wrong, &SettingError{settingName, o.FieldName, "leads to the name of a value, but EVENT_FIELD_VALUE is not set: set it to the path of the value"})
	case o.FieldName == "" && o.FieldValue != "":
		wrong = append(wrong, &SettingError{settingValue, o.FieldValue, "leads to a value, but EVENT_FIELD_NAME is not set: set it to the path of the value's name"})
	}
	wrong = append(wrong, o.checkLists()...)
	return append(wrong, o.checkRenames()...)
}

// checkLists refuses lists in lists. It also refuses a root whose path leads through a list, because a root begins at the top of
// each element.
func (o *Options) checkLists() (wrong []*SettingError) {
	for i, text := range o.List {
		list := setPath{settingList, text, o.absolute(text)}
		for _, other := range o.List[:i] {
			a, b := list.path, o.absolute(other)
			switch {
			case a == b:
				wrong = append(wrong, list.wrong("names a list that is already named: name each list once"))
			case isPathPrefix(a, b), isPathPrefix(b, a):
				wrong = append(wrong, list.wrong("this list and the list %s are nested, but a list inside a list cannot be split: name only one of them", other))
			}
		}
		if o.Root != "" && isPathPrefix(list.path, o.Root) {
			wrong = append(wrong, list.wrong("contains EVENT_ROOT=%s: EVENT_ROOT begins at the top of each element, so remove %s from its path", o.Root, list.path))
		}
	}
	return wrong
}

// checkRenames refuses two equal paths, and a path that leads through the other. A field gets a new name only once.
func (o *Options) checkRenames() (wrong []*SettingError) {
	var list []setPath
	for _, text := range o.Rename {
		from, _ := splitRename(text)
		list = append(list, setPath{settingRename, text, o.absolute(from)})
	}
	if o.FieldName != "" && o.FieldValue != "" {
		known := []setPath{{settingName, o.FieldName, o.absolute(o.FieldName)}}
		for _, path := range o.values() {
			value := setPath{settingValue, o.FieldValue, path}
			for _, other := range known {
				if err := overlap(value, other); err != nil {
					wrong = append(wrong, err)
				}
			}
			known = append(known, value)
		}
	}
	for i := range list {
		for j := range i {
			if err := overlap(list[i], list[j]); err != nil {
				wrong = append(wrong, err)
			}
		}
	}
	return wrong
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
