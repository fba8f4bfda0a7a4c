{
  _config+:: {
    // A matcher that each metric gets, such as 'cluster="one"'. Empty means none.
    selector: '',
    // Where the page of an alert is, with its name in lower case.
    runbookURL: 'https://github.com/evenkeel/evenkeel/blob/main/docs/runbook.md#%s',
  },

  // What selectors of expressions have: all is a whole one, more continues one.
  _matchers:: {
    all: if $._config.selector == '' then '' else '{' + $._config.selector + '}',
    more: if $._config.selector == '' then '' else ',' + $._config.selector,
  },
}
