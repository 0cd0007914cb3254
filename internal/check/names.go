package check

import (
	"slices"
	"strings"
	"unicode"
)

// class is what the name of a field says about the field.
type class uint8

// These are the classes.
const (
	unnamed  class = iota // the name says nothing
	thing                 // identifies what is measured, or what measures: device, sensor.id, devEui
	carrier               // identifies what may carry several things: host, gateway
	location              // says where a thing is, or whose it is: site, tenant
	aspect                // identifies one of several quantities of a thing: metric, channel, symbol
	weak                  // identifies something, perhaps an event: id, name, source
	named                 // ends like an identifier: batteryId
	passing               // identifies something transient: event_id, traceId
	state                 // describes: status, unit, message
)

// These are the words of the classes. The last word of a name counts, without trailing words such as id.
const (
	thingWords = "device dev sensor entity monitor meter probe machine asset equipment vehicle truck turbine inverter well station thing topic tracker robot drone vessel camera scanner printer kiosk terminal"
	// partWords identify a thing if an id follows, and describe its state otherwise.
	partWords     = "plug pump valve motor panel battery charger thermostat lamp bulb light switch relay cell ship car evse beacon badge"
	carrierWords  = "host gw client slave node gateway server instance pod container controller plc hub bridge router agent computer"
	locationWords = "site location building floor room zone region area city street country plant line hall farm factory tenant customer " +
		"cluster namespace environment env organization org fleet house home rack datacenter"
	aspectWords = "metric measurement quantity parameter signal channel symbol instrument exchange market venue variable point tag tagname property datapoint " +
		"service job pair product sym application app process program"
	// quantityNames are aspects if there is a field with one of the valueNames. Then they are of a thing, not of an event.
	quantityNames = "name key type kind field attribute item measure n k param"
	// valueNames are fields with the value of one quantity. typedNames are such fields, one for each type of value (SenML).
	valueNames = "value val v reading"
	// surelyValue are names of the value whatever else an event has. With the others, v may be a voltage beside other numbers.
	surelyValue = "value val"
	typedNames  = "v vs vb"
	// countedWords are aspects whose numbers are names.
	countedWords = "register index idx ifindex slot connector"
	// groupWords are objects that identify a series by themselves.
	groupWords = "tags labels meta metadata dimensions"
	// serialWords identify a thing by themselves.
	serialWords = "eui sn serial mac imei imsi iccid vin msisdn serialnumber serialno macaddress deveui hwid"
	// identityWords follow the name of what they identify.
	identityWords = "id uid uuid guid name key code no nr number eui serial sn mac imei ref address addr ip label"
	weakWords     = "id uid uuid guid name source src key code label subject origin who"
	passingWords  = "event subscription reading sample message msg request trace span session transaction trade order correlation record row sequence seq batch " +
		"track tracklet detection trip ride visit call incident ticket attempt " +
		"offset nonce uplink fcnt counter commit execution run version schema"
	// quantityWords are quantities, and never identify a series.
	quantityWords = "temperature temp humidity rh pressure voltage current power energy value values count total level speed velocity lat latitude " +
		"lon lng longitude alt altitude elevation heading course sog cog rssi snr battery batt price amount volume weight mass co2 pm10 pm25 lux " +
		"illuminance distance angle rpm watt watts kwh wh load usage percent pct ratio rate size bytes length duration latency ms seconds minutes " +
		"hours min max avg mean sum std median x y z r g b port pid score quantity qty linkquality consumption flow frequency hz ph v p q t h i n"
	// answerWords are values that describe a state.
	answerWords = "on off true false yes no open closed ok error warn warning info debug idle running stopped up down online offline normal alarm none"
	stateWords  = "status state mode level severity unit units type kind quality text description comment version firmware fw model color " +
		"message error reason action op operation direction result"
)

// classOf classifies the name of a field and of the object that contains it.
func classOf(path string) class {
	names := strings.Split(path, ".")
	last := wordsOf(names[len(names)-1])
	whole := strings.Join(last, "")
	head, identified := headOf(last)
	if head == "" && len(names) > 1 && !in(serialWords, whole) { // device.id
		head, _ = headOf(wordsOf(names[len(names)-2]))
	}
	switch {
	case in(carrierWords, head):
		return carrier
	case in(serialWords, whole), len(last) > 0 && in(serialWords, last[len(last)-1]):
		return thing
	case in(stateWords, head) && !identified:
		return state
	case in(passingWords, head):
		return passing
	case in(thingWords, head), identified && in(partWords, head):
		return thing
	case in(locationWords, head):
		return location
	case in(aspectWords, head), in(countedWords, head):
		return aspect
	case in(weakWords, whole):
		return weak
	case identified && strings.HasSuffix(whole, "id"):
		return named
	}
	return unnamed
}

// headOf returns the significant word of a name, without what follows it. Empty means that there is no such word.
func headOf(list []string) (head string, identified bool) {
	for len(list) > 0 && in(identityWords, list[len(list)-1]) {
		list, identified = list[:len(list)-1], true
	}
	if len(list) == 0 {
		return "", identified
	}
	if of := slices.Index(list, "of"); of > 0 { // unit_of_measurement
		list = list[:of]
	}
	head = list[len(list)-1]
	for _, tail := range strings.Fields(identityWords) { // deviceid
		if of, ok := strings.CutSuffix(head, tail); ok && (in(thingWords, of) || in(partWords, of) || in(carrierWords, of) || in(passingWords, of) || in(locationWords, of) || in(aspectWords, of)) {
			return of, true
		}
	}
	return head, identified
}

// headWord returns the significant word of the last name of a path.
func headWord(path string) string {
	list := wordsOf(lastName(path))
	if head, _ := headOf(list); head != "" {
		return head
	}
	return strings.Join(list, "")
}

// wordsOf splits a name into words: deviceID, device_id and device-id become device and id.
func wordsOf(name string) (list []string) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			list = append(list, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	previous := rune(0)
	for _, c := range name {
		switch {
		case !unicode.IsLetter(c) && !unicode.IsDigit(c):
			end()
		case unicode.IsUpper(c) && !unicode.IsUpper(previous):
			end()
			word = append(word, c)
		default:
			word = append(word, c)
		}
		previous = c
	}
	end()
	return list
}

// plain returns the last name of a path in lower-case letters and digits: @timestamp and time_stamp become timestamp.
func plain(path string) string { return strings.Join(wordsOf(lastName(path)), "") }

// lastName returns the last name of a path.
func lastName(path string) string { return path[strings.LastIndexAny(path, "./")+1:] }

// in reports whether a word is in a list, which is separated by spaces.
func in(list, word string) bool { return word != "" && slices.Contains(strings.Fields(list), word) }
