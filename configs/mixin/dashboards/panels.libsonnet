// Panels and dashboards as Grafana reads them.
{
  local source = { type: 'prometheus', uid: '${datasource}' },
  local targets(all) = std.mapWithIndex(function(i, t) {
    datasource: source,
    expr: t[0],
    legendFormat: t[1],
    refId: std.char(std.codepoint('A') + i),
  }, all),
  local panel(type, title, description, unit, series) = {
    type: type,
    title: title,
    description: description,
    datasource: source,
    fieldConfig: { defaults: { unit: unit, min: 0 }, overrides: [] },
    targets: targets(series),
  },

  // graph shows series over time: [expression, legend] each.
  graph(title, description, unit, series):: panel('timeseries', title, description, unit, series) {
    options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi', sort: 'desc' } },
  },

  // number shows the last value, in red if it is more than 0 and should not be.
  number(title, description, unit, expr, bad=true):: panel('stat', title, description, unit, [[expr, '']]) {
    fieldConfig+: { defaults+: {
      thresholds: {
        mode: 'absolute',
        steps: [{ color: 'green', value: null }] + if bad then [{ color: 'red', value: 0.001 }] else [],
      },
    } },
    options: { colorMode: 'value', graphMode: 'none', reduceOptions: { calcs: ['lastNotNull'] } },
  },

  // dashboard has its numbers in the first row, and its graphs below, three in a row.
  dashboard(uid, title, description, numbers, graphs):: {
    local width = 24 / std.length(numbers),
    uid: uid,
    title: title,
    description: description,
    tags: ['evenkeel'],
    schemaVersion: 39,
    editable: true,
    refresh: '1m',
    time: { from: 'now-6h', to: 'now' },
    timezone: 'utc',
    links: [{ type: 'dashboards', title: 'evenkeel', tags: ['evenkeel'], asDropdown: true, includeVars: true, keepTime: true }],
    templating: { list: [{ name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus' }] },
    panels: std.mapWithIndex(function(i, p) p { id: i + 1 },
                             std.mapWithIndex(function(i, p) p { gridPos: { x: i * width, y: 0, w: width, h: 4 } }, numbers) +
                             std.mapWithIndex(function(i, p) p { gridPos: { x: i % 3 * 8, y: 4 + std.floor(i / 3) * 8, w: 8, h: 8 } }, graphs)),
  },
}
