package dashboard

// This is the JSON model of a dashboard, as far as it is used. Its field names are Grafana's.
type (
	model struct {
		UID           string      `json:"uid"`
		Title         string      `json:"title"`
		Description   string      `json:"description"`
		Tags          []string    `json:"tags"`
		Timezone      string      `json:"timezone"`
		Editable      bool        `json:"editable"`
		GraphTooltip  int         `json:"graphTooltip"`
		Time          timeRange   `json:"time"`
		Refresh       string      `json:"refresh"`
		SchemaVersion int         `json:"schemaVersion"`
		Templating    templating  `json:"templating"`
		Annotations   annotations `json:"annotations"`
		Panels        []drawn     `json:"panels"`
	}
	timeRange struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	source struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}

	templating struct {
		List []variable `json:"list"`
	}
	variable struct {
		Name       string  `json:"name"`
		Label      string  `json:"label"`
		Type       string  `json:"type"`
		Query      any     `json:"query"`
		Datasource *source `json:"datasource,omitempty"`
		Refresh    int     `json:"refresh,omitempty"`
		Sort       int     `json:"sort,omitempty"`
		Multi      bool    `json:"multi,omitempty"`
		IncludeAll bool    `json:"includeAll,omitempty"`
		AllValue   string  `json:"allValue,omitempty"`
		Current    *choice `json:"current,omitempty"`
	}
	valuesQuery struct {
		Query string `json:"query"`
		RefID string `json:"refId"`
	}
	choice struct {
		Text  string `json:"text"`
		Value string `json:"value"`
	}

	annotations struct {
		List []annotation `json:"list"`
	}
	annotation struct {
		Name        string `json:"name"`
		Enable      bool   `json:"enable"`
		Datasource  source `json:"datasource"`
		Expr        string `json:"expr"`
		IconColor   string `json:"iconColor"`
		TitleFormat string `json:"titleFormat"`
		TextFormat  string `json:"textFormat"`
	}

	// drawn is a panel or the heading of a row.
	drawn struct {
		ID          int          `json:"id"`
		Type        string       `json:"type"`
		Title       string       `json:"title"`
		Description string       `json:"description,omitempty"`
		GridPos     position     `json:"gridPos"`
		Datasource  *source      `json:"datasource,omitempty"`
		Targets     []target     `json:"targets,omitempty"`
		FieldConfig *fieldConfig `json:"fieldConfig,omitempty"`
		Options     any          `json:"options,omitempty"`
		Collapsed   *bool        `json:"collapsed,omitempty"`
		Panels      *[]drawn     `json:"panels,omitempty"`
	}
	position struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	}
	target struct {
		RefID        string `json:"refId"`
		Datasource   source `json:"datasource"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
		Range        bool   `json:"range,omitempty"`
		Instant      bool   `json:"instant,omitempty"`
	}

	fieldConfig struct {
		Defaults  fieldDefaults `json:"defaults"`
		Overrides []override    `json:"overrides"`
	}
	fieldDefaults struct {
		Unit       string     `json:"unit"`
		Min        *float64   `json:"min,omitempty"`
		Thresholds thresholds `json:"thresholds"`
		Custom     *drawing   `json:"custom,omitempty"`
	}
	thresholds struct {
		Mode  string      `json:"mode"`
		Steps []threshold `json:"steps"`
	}
	threshold struct {
		Color string   `json:"color"`
		Value *float64 `json:"value"`
	}
	drawing struct {
		FillOpacity int      `json:"fillOpacity"`
		LineWidth   int      `json:"lineWidth"`
		Stacking    stacking `json:"stacking"`
	}
	stacking struct {
		Mode  string `json:"mode"`
		Group string `json:"group"`
	}
	override struct {
		Matcher    matcher    `json:"matcher"`
		Properties []property `json:"properties"`
	}
	matcher struct {
		ID      string `json:"id"`
		Options string `json:"options"`
	}
	property struct {
		ID    string `json:"id"`
		Value any    `json:"value"`
	}

	graphOptions struct {
		Legend  legend  `json:"legend"`
		Tooltip tooltip `json:"tooltip"`
	}
	numberOptions struct {
		ReduceOptions          reduceOptions `json:"reduceOptions"`
		ColorMode              string        `json:"colorMode"`
		GraphMode              string        `json:"graphMode"`
		TextMode               string        `json:"textMode"`
		JustifyMode            string        `json:"justifyMode"`
		Orientation            string        `json:"orientation"`
		WideLayout             bool          `json:"wideLayout"`
		ShowPercentChange      bool          `json:"showPercentChange"`
		PercentChangeColorMode string        `json:"percentChangeColorMode"`
	}
	legend struct {
		DisplayMode string   `json:"displayMode"`
		Placement   string   `json:"placement"`
		ShowLegend  bool     `json:"showLegend"`
		Calcs       []string `json:"calcs"`
	}
	tooltip struct {
		Mode string `json:"mode"`
		Sort string `json:"sort"`
	}
	reduceOptions struct {
		Calcs  []string `json:"calcs"`
		Fields string   `json:"fields"`
		Values bool     `json:"values"`
	}
)
