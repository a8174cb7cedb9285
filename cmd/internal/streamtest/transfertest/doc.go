// SPDX-License-Identifier: Apache-2.0

// Package transfertest runs the transfers of rstream and riostream on fake devices.
package transfertest
