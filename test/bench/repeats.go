// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// repeatsLifespan is longer than the interval in which the kernel reads the counters of a port again.
const repeatsLifespan = 20 * time.Millisecond

// countRepeats returns a measurement that adds the requests that devices have received more than once. A READ that is
// sent again is answered again.
func countRepeats(sum *int64, m measurement) measurement {
	return func(ctx context.Context, e *env, c cell) (figures, error) {
		before := duplicateRequests()
		f, err := m(ctx, e, c)
		time.Sleep(repeatsLifespan)
		*sum += duplicateRequests() - before
		return f, err
	}
}

// duplicateRequests returns the sum of this counter of all devices. siw and erdma have none.
func duplicateRequests() (sum int64) {
	files, _ := filepath.Glob("/sys/class/infiniband/*/ports/1/hw_counters/duplicate_request")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the device was removed
		}
		n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		sum += n
	}
	return sum
}
