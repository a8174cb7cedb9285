// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"regexp"
)

// addresses matches MAC and IPv6 addresses, GIDs and GUIDs in groups, and IPv4 addresses. It also matches some other
// texts of this form.
var addresses = regexp.MustCompile(`(?i)\b([0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b|` +
	`(::(ffff:)?)?\b\d{1,3}(\.\d{1,3}){3}\b|` +
	`\b([0-9a-f]{1,4}:){3,7}[0-9a-f]{1,4}\b|\b([0-9a-f]{1,4}:){1,7}:([0-9a-f]{1,4}:){0,6}[0-9a-f]{0,4}|::([0-9a-f]{1,4}:){0,6}[0-9a-f]{1,4}`)

// redact replaces the addresses in a text.
func redact(text []byte) []byte { return addresses.ReplaceAll(text, []byte("<address>")) }

// hasAddresses reports whether a recording has requests of datagrams, of DC or of frames, which contain GIDs
// and MAC addresses.
func hasAddresses(recording []byte) bool {
	for _, typ := range []string{"UD", "DCI", "RAW_PACKET"} {
		if bytes.Contains(recording, []byte(`"type":"`+typ+`"`)) {
			return true
		}
	}
	return false
}
