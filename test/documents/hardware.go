// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"purerdma/internal/hwreport"
)

// noHardware is the part of the document without reports.
const noHardware = "\nThere is no report about a card yet. The project has not run on hardware.\n\n"

// hardware returns a table of the reports about cards in a directory, and their failed checks.
func hardware(module fs.FS, dir string) (string, error) {
	entries, err := fs.ReadDir(module, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var rows, failures strings.Builder
	for _, e := range entries {
		file := path.Join(dir, e.Name())
		r, err := readReport(module, file)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		m := &r.Machine
		row := []string{m.Facts["hca_type"] + " " + m.Board, m.Driver, m.Firmware, m.Kernel + ", " + m.Arch, r.Version, r.Peer, r.Date.Format("2006-01-02"), r.Summary()}
		for _, cell := range row {
			fmt.Fprintf(&rows, "| %s ", clean(cell))
		}
		rows.WriteString("|\n")
		for i := range r.Results {
			if c := &r.Results[i]; c.Status == hwreport.Fail || c.Status == hwreport.Unknown {
				reason, _, _ := strings.Cut(c.Reason, "\n")
				fmt.Fprintf(&failures, "- %s, firmware %s: `%s` %s: %s\n", clean(m.Board), clean(m.Firmware), clean(c.ID), c.Status, clean(reason))
			}
		}
	}
	if rows.Len() == 0 {
		return noHardware, nil
	}
	text := "\n| card | driver | firmware | kernel | version | peer | date | checks |\n|---|---|---|---|---|---|---|---|\n" + rows.String() + "\n"
	if failures.Len() > 0 {
		text += failures.String() + "\n"
	}
	return text, nil
}

// readReport reads a report, which must be about a card.
func readReport(module fs.FS, file string) (*hwreport.Report, error) {
	f, err := module.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := hwreport.Read(f)
	if err == nil && r.Machine.Kind != hwreport.Card {
		err = fmt.Errorf("the device is a %s, want a %s", r.Machine.Kind, hwreport.Card)
	}
	return r, err
}

// clean removes what Markdown would interpret.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if strings.ContainsRune("|`<>[]\n\r", r) {
			return ' '
		}
		return r
	}, s))
}
