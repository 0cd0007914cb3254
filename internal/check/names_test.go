package check

import "testing"

func TestNamesSayWhatFieldsAre(t *testing.T) {
	for want, paths := range map[class][]string{
		thing: {
			"device", "deviceId", "device_id", "deviceName", "dev_eui", "devEui", "DevEUI", "deveui", "sensor", "sensor.id", "device.serial", "mac", "serialNumber",
			"end_device_ids.device_id", "systemProperties.iothub-connection-device-id", "meterno", "pump_id", "entity_id", "vin", "mqtt.topic",
		},
		carrier:  {"host", "hostname", "host.name", "node_id", "gateway", "gw_mac", "kubernetes.pod.name", "Computer"},
		location: {"site", "location.site", "plantId", "building", "tenant", "rack_no"},
		aspect:   {"metric", "channel", "symbol", "appname", "service.name", "labels.job", "ifIndex"},
		weak:     {"id", "uid", "name", "source", "data.id"},
		named:    {"batteryPackId", "user_id"},
		passing:  {"event_id", "eventId", "message.id", "trace_id", "traceid", "session", "order_id", "seq", "reading_id"},
		state:    {"status", "device_status", "unit", "attributes.unit_of_measurement", "type", "message"},
		unnamed:  {"celsius", "plek", "temperature", "switch", "pump", "username", "deviceTemperature", ""},
	} {
		for _, path := range paths {
			if got := classOf(path); got != want {
				t.Errorf("%s is of class %d, want %d", path, got, want)
			}
		}
	}
}

func TestNamesAndValuesSayWhichTimeComesFirst(t *testing.T) {
	rank := func(path, text string) int {
		return timeRank(leaf{&field{text: example{text: text}, number: example{text: text}}, path})
	}
	order := []string{"measured_at", "timestamp", "recordedAt", "created_at", "received_at", "someTime"}
	for i := range order[1:] {
		if rank(order[i], "") >= rank(order[i+1], "") {
			t.Errorf("%s does not come before %s", order[i], order[i+1])
		}
	}
	for _, path := range []string{"@timestamp", "time_stamp", "ts", "SourceTimestamp", "gps.time", "obsTimeUtc"} {
		if rank(path, "") == 0 {
			t.Errorf("%s is no time", path)
		}
	}
	for _, path := range []string{"uptime", "installed_at", "valid_until", "temperature", "status", "runtime", "TotalStartTime"} {
		if rank(path, "") != 0 {
			t.Errorf("%s is a time", path)
		}
	}
	for _, text := range []string{"2026-03-01T12:00:00Z", "2026-03-01 12:00", "01/Mar/2026:12:00:00 +0000", "1772366400", "1772366400250", "1772366400.5"} {
		if rank("tst", text) == 0 {
			t.Errorf("%s is no time", text)
		}
	}
	for _, text := range []string{"21.5", "2026-03-01", "12345", "9999999999", "a"} {
		if rank("tst", text) != 0 {
			t.Errorf("%s is a time", text)
		}
	}
	if rank("ServerTimestamp", "") <= rank("SourceTimestamp", "") {
		t.Error("a server's time comes before the source's")
	}
}
